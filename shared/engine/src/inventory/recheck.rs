//! Lists again after COPY: was what was loaded what was listed?

use tidemark_domain::inventory::Entry;

use super::build::Listing;
use super::lister::Lister;
use super::parts::Parts;
use crate::error::Error;

/// What the second listing showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recheck {
    /// Every object of the inventory is still the same version. Additions are left to their mark.
    Same,
    /// This one changed or is gone.
    Changed(String),
    /// Time ran out; it is done again.
    OutOfTime,
}

/// Lists again and holds it against the stored inventory.
pub async fn recheck(
    listing: &Listing<'_>,
    inventory: &str,
    has_time: &(dyn Fn() -> bool + Sync),
) -> Result<Recheck, Error> {
    let Listing { objects, definition, partition, .. } = *listing;
    let spellings = Lister::spellings(objects, definition, partition).await?;
    let mut lister = Lister::new(objects, definition, partition, &spellings, None);
    let mut inventory = Parts::new(objects, listing.control_bucket, Some(inventory.to_owned()));
    let mut changed: Option<String> = None;
    loop {
        if !has_time() {
            return Ok(Recheck::OutOfTime);
        }
        let part = lister.next_part().await?;
        if part.is_empty() {
            break;
        }
        for object in part {
            let listed = inventory.seek(&object.key, |gone| changed = Some(gone.key.clone())).await?;
            let now =
                Entry { key: object.key, etag: object.etag, size: object.size, modified: object.modified, rows: None };
            if listed.is_some_and(|listed| !listed.is_same_object(&now)) {
                changed = Some(now.key);
            }
            if let Some(key) = changed {
                return Ok(Recheck::Changed(key));
            }
        }
    }
    inventory.finish(|gone| changed = Some(gone.key.clone())).await?;
    Ok(changed.map_or(Recheck::Same, Recheck::Changed))
}
