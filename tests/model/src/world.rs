//! What the world consists of: S3, the item and the lock in DynamoDB, the queue, Redshift, the workers.

use std::sync::LazyLock;

use tidemark_domain::dataset::{Head, Mode};
use tidemark_domain::definition::{self, Concurrency, Definition};
use tidemark_domain::id::{
    BatchId, DatasetName, DefinitionHash, Digest, Epoch, Fence, Generation, PartitionId, PartitionName,
};
use tidemark_domain::invariants::Broken;
use tidemark_domain::partition::{Batch, Committed, Late, Listed, PartitionItem, Phase};
use tidemark_domain::update::Update;
use tidemark_domain::writes::Taken;

use crate::carrier::{InHand, Kept, MARKED, Stored};

/// The partition in S3: the version of each of its two files, 0 where there is none. A listing, an inventory and its digest are
/// all this value, and so are the rows loaded from it.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub struct Files {
    /// The first file; it is always there.
    pub a: u8,
    /// The second.
    pub b: u8,
}

/// The version of file `b` whose rows fail to verify.
pub const BAD: u8 = 2;

impl Files {
    /// The digest of this inventory.
    pub fn digest(self) -> Digest {
        Digest::stored(format!("{}-{}", self.a, self.b))
    }

    /// The inventory of a digest.
    pub fn of(digest: &Digest) -> Self {
        let mut versions = digest.as_str().split('-').filter_map(|version| version.parse().ok());
        Self { a: versions.next().unwrap_or(0), b: versions.next().unwrap_or(0) }
    }

    /// How many objects there are.
    pub fn objects(self) -> u64 {
        u64::from(self.a != 0) + u64::from(self.b != 0)
    }

    /// What a listing of them records.
    pub fn listed(self) -> Listed {
        let objects = self.objects();
        Listed {
            digest: self.digest(),
            inventory: String::new(),
            objects,
            bytes: objects,
            rows: None,
            at: None,
            missing: 0,
            late: Late::default(),
        }
    }

    /// Whether a COPY of this inventory would miss an object.
    pub fn misses(self, now: Self) -> bool {
        self.a != 0 && now.a == 0 || self.b != 0 && now.b == 0
    }

    /// Whether an object of this inventory is another one now, or gone; additions are no change.
    pub fn changed(self, now: Self) -> bool {
        self.a != now.a || self.b != 0 && self.b != now.b
    }
}

/// S3 events nobody has acknowledged.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq)]
pub struct Events {
    /// Of objects created.
    pub created: u8,
    /// Of objects removed.
    pub removed: u8,
}

/// A mark that is written; its message isn't sent, its event not acknowledged.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub struct Marking {
    /// Whether the event told of a removal.
    pub removed: bool,
    /// Whether a message is owed.
    pub owes: bool,
}

/// The lock: its holder's fence stands for the fresh id of the take.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
pub struct Lock {
    /// Who holds it.
    pub holder: Fence,
    /// Whether the lease is over.
    pub over: bool,
}

/// A ledger row.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    /// The fence its batch was born with, which stands for the batch's id.
    pub born: u8,
    /// The generation it covers.
    pub covers: u8,
    /// Its inventory.
    pub inventory: Files,
}

/// How a statement stands.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Not at its end.
    Running,
    /// FINISHED.
    Finished,
    /// Ended by a fault: perhaps committed all the same.
    Broken,
    /// An error of the data.
    Rejected,
    /// Cancelled by the load window.
    Cancelled,
    /// COPY missed an object of its manifest, or found it changed.
    SourceChanged,
    /// CREATE found the staging table.
    Exists,
    /// `claim` raised: the stored fence isn't older.
    Superseded,
    /// The guard row is of a newer epoch.
    EpochOver,
    /// `guard` raised: rows that the batch before didn't write.
    ForeignRows,
}

/// A request, as far as Redshift acts on it. Born, phase and try are its token.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    /// The batch.
    pub born: u8,
    /// The phase it is of.
    pub phase: Phase,
    /// The try.
    pub attempt: u8,
    /// The generation the batch covers.
    pub covers: u8,
    /// What was listed.
    pub inventory: Files,
    /// The batch whose rows the target should hold.
    pub before: u8,
    /// The target's epoch at the batch's birth.
    pub epoch: u8,
}

/// A statement as the Data API knows it.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub struct Statement {
    /// What it does.
    pub request: Request,
    /// Statements submitted under this token before, when it had expired.
    pub copy: u8,
    /// Whether its token has expired.
    pub expired: bool,
    /// How it stands.
    pub outcome: Outcome,
}

/// Redshift: one partition of one target.
#[derive(Clone, Debug, Default, Hash, PartialEq, Eq)]
pub struct Redshift {
    /// The partition's fence in the fence table.
    pub fence: u8,
    /// The epoch of the guard row.
    pub epoch: u8,
    /// The partition's rows.
    pub target: Files,
    /// The newest ledger row.
    pub newest: Row,
    /// The rows before it, as far as somebody may still look for them.
    pub ledger: Vec<Row>,
    /// Staging tables: batch and rows.
    pub staging: Vec<(u8, Files)>,
    /// Statements, as far as they run or somebody may ask for them.
    pub statements: Vec<Statement>,
}

/// The dataset's head, as far as it changes.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub struct Defined {
    /// The definition in force.
    pub definition: u8,
    /// The target's epoch.
    pub epoch: u8,
}

impl Defined {
    /// As it was when the partition was last confirmed.
    pub const FIRST: Self = Self { definition: 1, epoch: 1 };

    /// The head as it is stored.
    pub fn head(self) -> Head {
        Head {
            hash: DefinitionHash::stored(self.definition.to_string()),
            epoch: Epoch(self.epoch.into()),
            mode: Mode::Active,
            concurrency: Concurrency::Partition,
            why: None,
            since: MARKED,
            by: String::new(),
            probe_at: None,
            watermark: None,
        }
    }
}

/// Where a worker is.
#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub enum At {
    /// Waits for a message.
    Idle,
    /// Has read the item, is about to decide.
    Read(Kept<Stored>, Defined),
    /// Works on a batch.
    Working(Working),
    /// Has listed, when the item had this mark; only where `covers` is read after the list (a weakened rule).
    Listed(Working, Files, Generation),
    /// Done or overtaken; the message is still to be answered.
    Leaving {
        /// Gives this holder's lock back, if it is still its own.
        release: Option<Fence>,
        /// Sends a message.
        send: bool,
        /// The message comes back.
        back: bool,
    },
}

/// A worker under a take.
#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub struct Working {
    /// The take's fence.
    pub fence: Fence,
    /// The item as it was taken, as far as a worker reads it.
    pub taken: Kept<Stored>,
    /// The batch as it is in hand.
    pub batch: InHand,
    /// The batch as it was last written.
    pub written: InHand,
    /// The copy of the statement it waits for.
    pub wait: Option<u8>,
}

impl Working {
    /// What it holds of the item.
    pub fn held(&self) -> Taken {
        Taken { fence: self.fence, batch: Batch::clone(&self.written) }
    }
}

/// A worker, and whether its message is still its own.
#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub struct Worker {
    /// Where it is.
    pub at: At,
    /// Whether it has a message to answer.
    pub message: bool,
}

/// What no part of the system knows, kept to state the properties.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq)]
pub struct Ghost {
    /// An invariant that an event broke.
    pub broken: Option<Broken>,
    /// COPYs that a holder of the partition submitted since there last was a reason for one.
    pub copies: u8,
    /// The newest generation an operator wanted rebuilt for real.
    pub forced: u8,
    /// Whether a worker took the table for restored from a backup, which it never is here.
    pub restored: bool,
}

/// What is left to happen.
#[derive(Clone, Copy, Debug, Default, Hash, PartialEq, Eq)]
pub struct Left {
    /// Of the source: uploads, overwrites, deletions.
    pub changes: u8,
    /// By an operator.
    pub replays: u8,
    /// Invocations whose time is up.
    pub handoffs: u8,
    /// Everything that goes wrong.
    pub faults: u8,
}

/// A state of the world.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct State {
    /// S3.
    pub source: Files,
    /// The events queue.
    pub events: Events,
    /// The one marker.
    pub marking: Option<Marking>,
    /// Messages on the partitions queue. A worker acts on none of their fields, so their number says all.
    pub messages: u8,
    /// The partition item.
    pub item: Kept<Stored>,
    /// The lock.
    pub lock: Option<Lock>,
    /// The dataset's head.
    pub defined: Defined,
    /// Redshift.
    pub redshift: Redshift,
    /// A copy of a worker's write that its client sent twice, still on the wire.
    pub wire: Option<Kept<Update>>,
    /// The workers, in no order.
    pub workers: [Worker; 2],
    /// What is left to happen.
    pub left: Left,
    /// For the properties.
    pub ghost: Ghost,
    /// The invariant that this state breaks; all else tells it.
    pub broken: Option<Broken>,
}

/// The dataset of the model: one whose guards a model of two files can meet.
pub static DEFINITION: LazyLock<Definition> = LazyLock::new(|| {
    let text = r#"
[orders]
source = "s3://lake-raw/orders/"
layout = "dt={dt}/"
format = "parquet"
target = "sales.orders"
columns = ["order_id bigint"]
key = ["order_id"]
concurrency = "partition"
[orders.partition.dt]
type = "date"
column = "dt"
in_files = false
[orders.tolerance]
row_drop = "accept"
"#;
    match definition::parse(text) {
        Ok(mut all) => all.remove(0),
        Err(problems) => unreachable!("the model's definition: {problems:?}"),
    }
});

/// The partition of the model.
pub static PARTITION: LazyLock<PartitionId> =
    LazyLock::new(|| match (DatasetName::new("orders"), PartitionName::new("dt=2026-11-01")) {
        (Ok(dataset), Ok(partition)) => PartitionId { dataset, partition },
        names => unreachable!("the model's names: {names:?}"),
    });

/// A number of the model, from one of the system.
pub fn small(number: u64) -> u8 {
    u8::try_from(number).unwrap_or(u8::MAX)
}

/// The id of the batch that was born with a fence.
pub fn batch_id(born: u8) -> BatchId {
    BatchId(uuid::Uuid::from_u128(u128::from(born)))
}

/// The fence that a batch was born with.
pub fn born(id: BatchId) -> u8 {
    u8::try_from(id.0.as_u128()).unwrap_or(u8::MAX)
}

impl Row {
    /// The row as the item keeps it.
    pub fn committed(self) -> Committed {
        Committed {
            batch: batch_id(self.born),
            generation: Generation(self.covers.into()),
            fence: Fence(self.born.into()),
            digest: self.inventory.digest(),
            inventory: String::new(),
            rows: self.inventory.objects(),
            took_seconds: 0,
            committed_at: MARKED,
        }
    }
}

impl Request {
    /// What a batch asks of Redshift in its phase.
    pub fn of(batch: &Batch) -> Self {
        Self {
            born: born(batch.id),
            phase: batch.phase,
            attempt: u8::try_from(batch.attempt).unwrap_or(u8::MAX),
            covers: small(batch.covers.0),
            inventory: batch.listed.as_ref().map_or_else(Files::default, |listed| Files::of(&listed.digest)),
            before: batch.before.as_ref().map_or(0, |before| born(before.batch)),
            epoch: small(batch.epoch.0),
        }
    }

    /// The ledger row of its swap.
    pub fn row(&self) -> Row {
        Row { born: self.born, covers: self.covers, inventory: self.inventory }
    }

    /// Whether it goes out under the same token.
    pub fn same_token(&self, other: &Self) -> bool {
        (self.born, self.phase, self.attempt) == (other.born, other.phase, other.attempt)
    }
}

impl State {
    /// One file, landed and confirmed long ago.
    pub fn first(left: Left) -> Self {
        let source = Files { a: 1, b: 0 };
        let row = Row { born: 1, covers: 1, inventory: source };
        let item = PartitionItem {
            marked: Generation(1),
            built: Generation(1),
            marked_at: MARKED,
            forced: None,
            accept: None,
            asked: None,
            removed: 0,
            fence: Fence(1),
            batch: None,
            unresolved: false,
            last: Some(row.committed()),
            parked: None,
            alerted: std::collections::BTreeSet::new(),
            not_before: None,
            tries: 0,
            holds: None,
            work: None,
            due_at: None,
            dirty_since: None,
            parked_work: None,
            parked_since: None,
        };
        let idle = Worker { at: At::Idle, message: false };
        Self {
            source,
            events: Events::default(),
            marking: None,
            messages: 0,
            item: Kept::item(item),
            lock: None,
            defined: Defined::FIRST,
            redshift: Redshift { fence: 1, epoch: 1, target: source, newest: row, ..Redshift::default() },
            wire: None,
            workers: [idle.clone(), idle],
            left,
            ghost: Ghost::default(),
            broken: None,
        }
    }

    /// What a look sees: partition and head in one snapshot.
    pub fn look(&self) -> At {
        At::Read(self.item.clone(), self.defined)
    }

    /// Whether nobody is about to do anything.
    pub fn quiet(&self) -> bool {
        self.events == Events::default()
            && self.marking.is_none()
            && self.messages == 0
            && self.redshift.statements.iter().all(|statement| statement.outcome != Outcome::Running)
            && self.workers.iter().all(|worker| worker.at == At::Idle)
    }

    /// Nothing moves and nothing waits to be moved.
    pub fn at_rest(&self) -> bool {
        self.quiet() && self.item.due_at.is_none()
    }

    /// Whether a worker with this fence lives.
    pub fn lives(&self, fence: Fence) -> bool {
        self.workers.iter().any(|worker| match &worker.at {
            At::Working(working) | At::Listed(working, ..) => working.fence == fence,
            At::Leaving { release, .. } => *release == Some(fence),
            At::Idle | At::Read(..) => false,
        })
    }

    /// Notes an invariant that an event broke; the first counts.
    pub fn note(&mut self, holds: tidemark_domain::invariants::Holds) {
        if let Err(broken) = holds {
            self.ghost.broken.get_or_insert(broken);
        }
    }

    /// Forgets what nobody can come back to, and the order of what has none, so that equal situations are equal states.
    pub fn tidy(&mut self) {
        self.workers.sort_unstable();
        let mut views: Vec<Request> = Vec::with_capacity(4);
        views.extend(self.item.batch.as_ref().map(Request::of));
        for worker in &self.workers {
            match &worker.at {
                At::Read(item, _) => views.extend(item.batch.as_ref().map(Request::of)),
                At::Working(working) | At::Listed(working, ..) => views.push(Request::of(&working.batch)),
                At::Idle | At::Leaving { .. } => {}
            }
        }
        let redshift = &mut self.redshift;
        // Whoever sees a batch goes on from there, and never asks for a statement of an earlier phase or try again.
        let ahead =
            |view: &Request, x: &Request| view.born == x.born && (view.phase, view.attempt) <= (x.phase, x.attempt);
        redshift
            .statements
            .retain(|x| x.outcome == Outcome::Running || views.iter().any(|view| ahead(view, &x.request)));
        let known = |born: u8| {
            views.iter().any(|view| view.born == born) || redshift.statements.iter().any(|x| x.request.born == born)
        };
        let last = self.item.last.as_ref().map(|last| born(last.batch));
        redshift.ledger.retain(|row| known(row.born) || Some(row.born) == last);
        redshift.staging.retain(|(born, _)| known(*born));
        redshift.statements.sort_unstable();
        redshift.staging.sort_unstable();
    }
}
