//! What nights came to: every kind of fault and every state that has to be reached, counted, so that none is only thought of.

use std::fmt::Write as _;

macro_rules! kinds {
    ($($kind:ident: $words:literal,)*) => {
        /// A kind of fault, or a state that only faults lead to.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Kind {
            $(#[doc = $words] $kind,)*
        }

        impl Kind {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$kind),*];

            /// In words.
            pub fn words(self) -> &'static str {
                match self { $(Self::$kind => $words,)* }
            }
        }
    };
}

kinds! {
    Throttled: "a call is throttled",
    FailedBefore: "a call fails before its effect",
    FailedAfter: "a call fails after its effect: the answer is lost",
    Twice: "a call is carried out twice",
    Late: "a call is given up by its caller and arrives later",
    LateTwice: "a call is carried out, and a copy of it arrives later",
    DiedBefore: "a worker dies before an effect",
    DiedAfter: "a worker dies after an effect",
    DiedLate: "a worker dies, and its effect arrives later",
    Reordered: "what arrives late was overtaken by a later call of its kind",
    WriteReordered: "a worker's late write was overtaken by its own later one",
    ClockSkewed: "a worker's clock is wrong",
    LeaseOver: "time jumps over a lease",
    WindowOver: "time jumps over a load window",
    TokenForgotten: "time jumps over the life of a token",
    OutcomeForgotten: "time jumps over the Data API's memory",
    Zombie: "a worker acts on a partition that another took from it",
    StatementLong: "a statement runs for more than a minute",
    StatementFailed: "a statement fails though nothing is wrong with it",
    StatementLied: "a statement commits, and is told as failed",
    SwapOut: "a batch is given up with its swap out",
    FoundByLook: "a look finds the swap that landed meanwhile",
    NotFoundByLook: "a look finds that it didn't",
    ShutOutByFence: "a late swap is shut out by its fence",
    ShutOutByEpoch: "a late swap is shut out by its epoch",
    MessagesLost: "the partitions queue loses everything",
    EventsLost: "the events queue loses everything",
    MessageInvented: "somebody sends a message by hand",
    EventDoubled: "an event comes twice",
    Continued: "a batch is continued by another worker",
    Parked: "a partition is parked",
    FoundByTidy: "sweep's tidy tells that state and ledger differ",
    FoundByRebuild: "a rebuild finds that the state table was restored",
    Halted: "the dataset is halted",
    Paused: "the dataset is paused",
    Retired: "the dataset is retired",
    LetGo: "a partition with anything to do leaves the index, since its dataset is retired",
    Replayed: "an operator replays",
    Backfilled: "an operator makes a job",
    TableRestored: "the state table is restored from a backup",
    WarehouseRestored: "the warehouse is restored from a snapshot",
    DefinitionChanged: "a definition changes",
    EpochRaised: "an epoch is raised",
}

/// How often each kind was reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached(Vec<u64>);

impl Default for Reached {
    fn default() -> Self {
        Self(vec![0; Kind::ALL.len()])
    }
}

impl Reached {
    /// Once more.
    pub fn count(&mut self, kind: Kind) {
        self.0[kind as usize] += 1;
    }

    /// How often.
    pub fn times(&self, kind: Kind) -> u64 {
        self.0[kind as usize]
    }

    /// With those of another night.
    pub fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(sum, more)| *sum += more);
    }

    /// What was never reached.
    pub fn missing(&self) -> Vec<Kind> {
        Kind::ALL.iter().copied().filter(|kind| self.times(*kind) == 0).collect()
    }

    /// A line a kind.
    pub fn table(&self) -> String {
        let mut table = String::new();
        for kind in Kind::ALL {
            // A string takes everything.
            let _ = writeln!(table, "{:>9}  {}", self.times(*kind), kind.words());
        }
        table
    }
}
