//! The deployed stack, as the environment tells it: its configuration and the ports to it.

use std::fmt::Display;
use std::sync::Arc;

use tidemark_aws::clients;
use tidemark_aws::config::{Config, Purpose, environment};
use tidemark_domain::dataset::{Head, Mode};
use tidemark_domain::definition::Definition;
use tidemark_domain::id::{DatasetName, PartitionId, PartitionName};
use tidemark_domain::partition::PartitionItem;
use tidemark_engine::{Engine, Ports};

use crate::console::{PLAIN, WARN};
use crate::exit::Failure;

/// A stack and the way to it.
pub(crate) struct Cloud {
    /// What is configured.
    pub(crate) config: Config,
    /// The way to it.
    pub(crate) ports: Ports,
    /// What works on it, for what an operator does by the engine's own hand.
    pub(crate) engine: Engine,
}

/// A dataset that was applied.
pub(crate) struct Known {
    /// Which.
    pub(crate) dataset: DatasetName,
    /// Its head.
    pub(crate) head: Head,
    /// Its definition in force.
    pub(crate) definition: Arc<Definition>,
}

/// A dataset that was applied, and one of its partitions.
pub(crate) struct Seen {
    /// The dataset's head.
    pub(crate) head: Head,
    /// Its definition in force.
    pub(crate) definition: Arc<Definition>,
    /// The partition, by its canonical name.
    pub(crate) id: PartitionId,
    /// What is stored of it; `None` where it was never marked.
    pub(crate) item: Option<PartitionItem>,
}

impl Known {
    /// One of its partitions.
    pub(crate) fn id(&self, partition: &PartitionName) -> PartitionId {
        PartitionId { dataset: self.dataset.clone(), partition: partition.clone() }
    }

    /// Refuses one of which nothing is rebuilt any more.
    pub(crate) fn not_retired(&self) -> Result<(), Failure> {
        match self.head.mode {
            Mode::Retired => Err(Failure::Refused(format!("{} is retired; apply a file that has it", self.dataset))),
            Mode::Active | Mode::Paused | Mode::Halted => Ok(()),
        }
    }

    /// What keeps its partitions from being rebuilt at once, as a line; else nothing.
    pub(crate) fn note(&self) -> String {
        let why = self.head.why.as_deref().unwrap_or("no reason is stored");
        match self.head.mode {
            Mode::Paused => format!("{WARN}note{PLAIN}: {} is paused; it is rebuilt once resumed\n", self.dataset),
            Mode::Halted => {
                format!("{WARN}note{PLAIN}: {} is halted ({why}); it is probed every 15 minutes\n", self.dataset)
            }
            Mode::Active | Mode::Retired => String::new(),
        }
    }
}

impl Cloud {
    /// Reads the environment; everything that is wrong with it is told at once.
    pub(crate) async fn connect() -> Result<Self, Failure> {
        let config = Config::read(Purpose::Operate, environment).map_err(|problems| {
            Failure::Unavailable(format!("the stack isn't told by the environment:\n  {}", problems.0.join("\n  ")))
        })?;
        let engine = clients::engine(&config, &clients::sdk_config().await);
        Ok(Self { config, ports: engine.ports.clone(), engine })
    }

    /// Where inventories, manifests and jobs are.
    pub(crate) fn control_bucket(&self) -> &str {
        &self.engine.settings.control_bucket
    }

    /// Looks a dataset up, by its name as an operator types it.
    pub(crate) async fn dataset(&self, name: &str) -> Result<Known, Failure> {
        let dataset = DatasetName::new(name).map_err(|error| Failure::Usage(error.to_string()))?;
        let head = self.ports.state.read(&[Head::key(&dataset)]).await.map_err(unavailable)?.pop().flatten();
        let head = head.ok_or_else(|| self.no_dataset(name))?;
        let head = Head::from_item(&head).map_err(|error| unreadable(&dataset, &error))?;
        Ok(Known { definition: self.definition(&dataset, &head).await?, dataset, head })
    }

    /// A dataset's definition in force.
    pub(crate) async fn definition(&self, dataset: &DatasetName, head: &Head) -> Result<Arc<Definition>, Failure> {
        let definition = self.engine.definitions.get(self.ports.state.as_ref(), dataset, &head.hash).await;
        definition.map_err(unavailable)
    }

    /// That there is no such dataset.
    pub(crate) fn no_dataset(&self, dataset: &str) -> Failure {
        let stack = &self.config.stack;
        Failure::Refused(format!("stack {stack} has no dataset {dataset}; put it in force with `tidemark apply`"))
    }

    /// Looks a partition up, by names as an operator types them.
    pub(crate) async fn look(&self, dataset: &str, partition: &str) -> Result<Seen, Failure> {
        let Known { dataset, head, definition } = self.dataset(dataset).await?;
        let name = PartitionName::new(partition).map_err(|error| Failure::Usage(error.to_string()))?;
        let partition = definition.partition(&name).map_err(|error| Failure::Refused(error.to_string()))?.name;
        let id = PartitionId { dataset, partition };
        let item = self.item(&id).await?;
        Ok(Seen { head, definition, id, item })
    }

    /// What is stored of a partition.
    pub(crate) async fn item(&self, id: &PartitionId) -> Result<Option<PartitionItem>, Failure> {
        let item = self.ports.state.read(&[PartitionItem::key(id)]).await.map_err(unavailable)?.pop().flatten();
        item.map(|item| PartitionItem::from_item(&item)).transpose().map_err(|error| unreadable(id, &error))
    }
}

/// Who works at this terminal, for the record.
pub(crate) fn operator() -> String {
    environment("USER").filter(|user| !user.is_empty()).unwrap_or_else(|| "operator".to_owned())
}

/// A failure of AWS or Redshift.
pub(crate) fn unavailable(error: impl Display) -> Failure {
    Failure::Unavailable(error.to_string())
}

/// An item that this release doesn't understand.
fn unreadable(what: &impl Display, error: &serde_json::Error) -> Failure {
    Failure::Refused(format!("what is stored of {what} can't be read: {error}; was it written by a newer release?"))
}
