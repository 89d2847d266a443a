//! Definitions by their hash. A version never changes, so it is read once a process; which one is in force is read at
//! every take, from the dataset's head.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tidemark_domain::dataset::version_key;
use tidemark_domain::definition::{self, Definition};
use tidemark_domain::id::{DatasetName, DefinitionHash};

use crate::error::Error;
use crate::ports::StateStore;

/// The versions read so far.
#[derive(Debug, Default)]
pub struct Definitions(Mutex<BTreeMap<DefinitionHash, Arc<Definition>>>);

impl Definitions {
    /// The version of `dataset` with this hash.
    pub async fn get(
        &self,
        state: &dyn StateStore,
        dataset: &DatasetName,
        hash: &DefinitionHash,
    ) -> Result<Arc<Definition>, Error> {
        if let Some(known) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(hash) {
            return Ok(known.clone());
        }
        let key = version_key(dataset, hash);
        let unreadable = |why: String| Error::Stored { what: format!("definition {hash} of {dataset}"), why };
        let item = state.read(std::slice::from_ref(&key)).await?.pop().flatten();
        let item = item.ok_or_else(|| unreadable("it is not there; `tidemark apply` stores it".to_owned()))?;
        let text = item.get("text").and_then(|text| text.as_str()).unwrap_or_default();
        let parsed = definition::parse(text)
            .map_err(|problems| unreadable(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")))?;
        let found = parsed.into_iter().find(|definition| definition.name == *dataset);
        let found = Arc::new(found.ok_or_else(|| unreadable("it defines another dataset".to_owned()))?);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(hash.clone(), found.clone());
        Ok(found)
    }
}
