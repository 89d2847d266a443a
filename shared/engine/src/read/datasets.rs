//! Which datasets there are, and how each stands as a whole.

use tidemark_domain::dataset::{Head, catalog_key};
use tidemark_domain::id::DatasetName;
use tidemark_domain::route::Catalog;

use super::unreadable;
use crate::Ports;
use crate::error::Error;

/// Heads read in one snapshot.
const AT_ONCE: usize = 100;

/// A dataset that was applied at some time.
#[derive(Debug, Clone, PartialEq)]
pub struct Dataset {
    /// Its name.
    pub name: DatasetName,
    /// Its head.
    pub head: Head,
}

/// The catalog in force; an empty one where nothing was ever applied.
pub async fn catalog(ports: &Ports) -> Result<Catalog, Error> {
    let item = ports.state.read(&[catalog_key()]).await?.pop().flatten();
    let Some(text) = item.as_ref().and_then(|item| item.get("catalog")?.as_str()) else {
        return Ok(Catalog::default());
    };
    serde_json::from_str(text).map_err(|why| unreadable("the catalog", &why))
}

/// All datasets, retired ones too, by name.
pub async fn all(ports: &Ports) -> Result<Vec<Dataset>, Error> {
    let catalog = catalog(ports).await?;
    let mut names: Vec<DatasetName> = catalog.datasets.into_iter().map(|place| place.name).collect();
    names.extend(catalog.retired);
    names.sort();
    let mut datasets = Vec::with_capacity(names.len());
    for names in names.chunks(AT_ONCE) {
        let keys: Vec<_> = names.iter().map(Head::key).collect();
        for (name, item) in names.iter().zip(ports.state.read(&keys).await?) {
            let Some(item) = item else { continue };
            let head = Head::from_item(&item).map_err(|why| unreadable(format!("the head of {name}"), &why))?;
            datasets.push(Dataset { name: name.clone(), head });
        }
    }
    Ok(datasets)
}
