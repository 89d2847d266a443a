//! Who listens where: a port found free may have been taken by somebody else, and nothing of ours may listen beyond loopback.
//!
//! Read from Linux's `/proc/net/tcp`; elsewhere nothing is known and nothing is refused.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use anyhow::{Result, ensure};

use crate::processes;
use crate::server::Server;

/// A listening TCP socket of one of our servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    /// The server that was started, e.g. `postgres`.
    pub server: String,
    /// The process that holds the socket.
    pub pid: u32,
    /// Its name, e.g. `bootstrap`.
    pub process: String,
    /// Where it listens.
    pub address: SocketAddr,
}

/// All listening sockets of a server and its children.
pub(crate) fn of(server: &Server) -> Vec<Listener> {
    let listening = listening();
    let mut found = Vec::new();
    for pid in processes::of_group(server.group()) {
        for address in processes::sockets(pid).iter().filter_map(|inode| listening.get(inode)) {
            let (server, process) = (server.name().to_owned(), processes::name(pid));
            found.push(Listener { server, pid, process, address: *address });
        }
    }
    found
}

/// Refuses a server whose port is held by another program, or that listens beyond loopback.
pub(crate) fn check_ours(server: &Server, port: u16) -> Result<()> {
    if !Path::new("/proc/net/tcp").exists() {
        return Ok(());
    }
    let all = of(server);
    let ours = all.iter().any(|listener| listener.address.port() == port);
    ensure!(ours, "port {port} is served by another program, not by our {}; start again", server.name());
    for listener in all {
        ensure!(
            listener.address.ip().is_loopback(),
            "{} listens on {}, beyond loopback; it was stopped",
            listener.server,
            listener.address
        );
    }
    Ok(())
}

/// Inode and address of each listening TCP socket of the machine.
fn listening() -> BTreeMap<u64, SocketAddr> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    tables.iter().flat_map(|table| table.lines().skip(1)).filter_map(parse).collect()
}

/// One line: `sl local_address rem_address st … inode`; 0A is LISTEN.
fn parse(line: &str) -> Option<(u64, SocketAddr)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (address, port) = fields.get(1)?.split_once(':')?;
    let listens = *fields.get(3)? == "0A";
    let port = u16::from_str_radix(port, 16).ok()?;
    listens.then_some((fields.get(9)?.parse().ok()?, SocketAddr::new(parse_address(address)?, port)))
}

/// Words of 32 bits, each in the byte order of the machine.
fn parse_address(text: &str) -> Option<IpAddr> {
    let mut bytes = Vec::new();
    for at in (0..text.len()).step_by(8) {
        bytes.extend(u32::from_str_radix(text.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    }
    match bytes.len() {
        4 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?).into()),
        16 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_line_of_proc_net_tcp() {
        let line =
            "   0: 0100007F:1538 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12345 1 0";
        assert_eq!(parse(line), Some((12345, "127.0.0.1:5432".parse().unwrap())));
        let any =
            "   1: 00000000000000000000000000000000:22B3 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 77 1";
        assert_eq!(parse(any), Some((77, "[::]:8883".parse().unwrap())));
        assert_eq!(parse(&line.replace(" 0A ", " 01 ")), None, "not listening");
    }

    #[test]
    fn knows_a_socket_of_this_process() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let listening = listening();
        let ours = processes::sockets(std::process::id());
        let found: Vec<_> = ours.iter().filter_map(|inode| listening.get(inode)).collect();
        assert!(found.contains(&&socket.local_addr().unwrap()), "{found:?}");
    }
}
