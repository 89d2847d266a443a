//! Tells people: the first alert of a kind at once, those that follow soon in one mail ([`tidemark_domain::alert`]).
//!
//! At least once, as any announcement: who opened a window and died before its mail opens it again by its next try; what was
//! counted is told by sweep.

use std::fmt::Write as _;

use jiff::Timestamp;
use tidemark_domain::alert::{Gathered, Subject};
use tidemark_domain::id::PartitionId;
use tidemark_domain::partition::PartitionItem;

use crate::Engine;
use crate::error::Error;
use crate::ports::{Alert, Index, Written};

/// Parked partitions that a mail names; it says how many more there are.
const NAMED_AT_MOST: usize = 20;
/// Parked partitions that are looked at for it.
const LOOKED_AT: usize = 100;
/// Of each partition's message a mail has so many characters.
const MESSAGE_CHARACTERS: usize = 200;

impl Engine {
    /// Tells of a partition, unless the same kind of its dataset was told lately: then it is counted.
    pub(crate) async fn tell(&self, id: &PartitionId, kind: &str, subject: &str, body: &str) -> Result<(), Error> {
        let gathering = Subject { dataset: &id.dataset, kind };
        let opened = self.write(&[gathering.open(&id.partition, self.ports.clock.now())]).await?;
        if let Written::Refused(found) = opened {
            let found = found.into_iter().flatten().next().and_then(|item| Gathered::from_item(&item).ok());
            // Its own window: it died, or its mail failed, before anybody was told.
            if found.is_none_or(|found| found.first != id.partition) {
                tracing::warn!(partition = %id, kind, subject, "told together with others of its kind");
                self.write(&[gathering.count(&format!("{subject}: {body}"))]).await?;
                return Ok(());
            }
        }
        self.mail(subject, body).await
    }

    /// Tells what was counted and is due; what fails is tried again by the next sweep.
    pub(crate) async fn tell_gathered(&self, gathered: &[Gathered]) {
        for window in gathered.iter().filter(|window| window.is_due(self.ports.clock.now())) {
            if let Err(error) = self.tell_of(window).await {
                tracing::error!(dataset = %window.dataset, kind = window.kind, %error, "alerts not told yet");
            }
        }
    }

    async fn tell_of(&self, window: &Gathered) -> Result<(), Error> {
        let Gathered { dataset, kind, more, .. } = window;
        let since = window.since.strftime("%Y-%m-%d %H:%M UTC");
        let mut body =
            format!("{more} more alerts of kind {kind} for dataset {dataset}, the first was told at {since}.\n");
        if let Some(last) = &window.last {
            let _ = writeln!(body, "\nThe last of them: {last}");
        }
        body.push_str(&self.parked_of(window).await?);
        body.push_str("\n`tidemark status` shows all of them, `tidemark show` each with its cause.\n");
        self.mail(&format!("{kind}: {more} more of {dataset}"), &body).await?;
        let told = self.write(&[window.told(self.ports.clock.now())]).await?;
        if !matches!(told, Written::Applied { .. }) {
            tracing::info!(%dataset, kind, "more were counted meanwhile, or another sweep told as well");
        }
        Ok(())
    }

    /// The partitions that are parked for this kind, with their messages.
    async fn parked_of(&self, window: &Gathered) -> Result<String, Error> {
        let every = Timestamp::UNIX_EPOCH..=Timestamp::MAX;
        let entries = self.ports.state.query(Index::Parked, Some(&window.dataset), every, LOOKED_AT).await?;
        let keys: Vec<_> = entries.iter().map(|entry| PartitionItem::key(&entry.id)).collect();
        let items = if keys.is_empty() { Vec::new() } else { self.ports.state.read(&keys).await? };
        let mut lines = Vec::new();
        for (entry, item) in entries.iter().zip(items) {
            let item = item.and_then(|item| PartitionItem::from_item(&item).ok());
            if let Some(parked) = item.and_then(|item| item.parked).filter(|parked| parked.kind == window.kind) {
                let message: String = parked.message.chars().take(MESSAGE_CHARACTERS).collect();
                lines.push(format!("  {}: {message}\n", entry.id.partition));
            }
        }
        if lines.is_empty() {
            return Ok(String::new());
        }
        let more = if entries.len() == LOOKED_AT { " or more" } else { "" };
        let mut text = format!("\nParked for it now: {}{more}\n", lines.len());
        text.extend(lines.into_iter().take(NAMED_AT_MOST));
        Ok(text)
    }

    /// Sends a mail.
    pub(crate) async fn mail(&self, subject: &str, body: &str) -> Result<(), Error> {
        let subject: String = subject.chars().filter(|c| c.is_ascii() && !c.is_control()).take(100).collect();
        self.ports.announcer.alert(Alert { subject, body: body.to_owned() }).await.map_err(Error::Announce)
    }
}
