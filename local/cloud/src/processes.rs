//! What Linux's `/proc` tells about processes. Where there is no `/proc`, nothing is found.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// The processes of a process group; not those that have ended and were not yet waited for.
pub(crate) fn of_group(group: u32) -> Vec<u32> {
    all()
        .into_iter()
        .filter(|&pid| status(pid).is_some_and(|(state, theirs)| theirs == group && state != 'Z'))
        .collect()
}

/// The environment a process was started with; empty if it is not ours to read.
pub(crate) fn environment(pid: u32) -> BTreeMap<String, String> {
    let bytes = fs::read(folder(pid).join("environ")).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    text.split('\0')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// The name the kernel shows for a process.
pub(crate) fn name(pid: u32) -> String {
    fs::read_to_string(folder(pid).join("comm")).unwrap_or_default().trim_end().to_owned()
}

/// The inodes of the sockets a process holds.
pub(crate) fn sockets(pid: u32) -> Vec<u64> {
    let Ok(descriptors) = fs::read_dir(folder(pid).join("fd")) else { return Vec::new() };
    let targets = descriptors.flatten().filter_map(|entry| fs::read_link(entry.path()).ok());
    targets.filter_map(|target| target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()).collect()
}

fn all() -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// State letter and process group. The second field, the name, may hold blanks and brackets: count from the last bracket.
fn status(pid: u32) -> Option<(char, u32)> {
    let text = fs::read_to_string(folder(pid).join("stat")).ok()?;
    let mut fields = text[text.rfind(')')? + 1..].split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(1)?.parse().ok()?))
}

fn folder(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}"))
}
