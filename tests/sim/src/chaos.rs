//! What goes wrong in a call: it fails before its effect or after it, happens twice, happens later, or its caller dies.
//!
//! Every call waits for one more poll before it is made, so whoever polls several workers decides in which order their calls
//! happen. What happens later waits on the [`Scene`] until the night lets it arrive, in any order.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use tidemark_engine::ports::Effect;

use crate::chance::Chance;
use crate::reached::{Kind, Reached};

/// What goes wrong with a call, beside throttling.
const TROUBLES: [Kind; 8] = [
    Kind::FailedBefore,
    Kind::FailedAfter,
    Kind::Twice,
    Kind::Late,
    Kind::LateTwice,
    Kind::DiedBefore,
    Kind::DiedAfter,
    Kind::DiedLate,
];
/// What leaves a swap behind that lands when nobody thinks of it any more.
const AMBUSHES: [Kind; 3] = [Kind::Late, Kind::LateTwice, Kind::DiedLate];

/// Effects on their way.
pub type Effects = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An effect that is still to come.
struct Late {
    /// Whose, which call, of what.
    what: String,
    worker: String,
    call: &'static str,
    /// After so many calls it was sent.
    sent: u64,
    effect: Effects,
}

/// What all workers of a night share. Clones are the same scene.
#[derive(Clone, Default)]
pub struct Scene(Arc<Mutex<Shared>>);

#[derive(Default)]
struct Shared {
    throttled: Option<&'static str>,
    calm: bool,
    ambush: bool,
    echo: bool,
    late: Vec<Late>,
    trace: Vec<String>,
    steps: u64,
    reached: Reached,
    /// The newest call of each kind: by any worker, and by each.
    newest: BTreeMap<&'static str, u64>,
    newest_of: BTreeMap<(String, &'static str), u64>,
    /// Who took each partition last.
    takers: BTreeMap<String, String>,
}

impl Scene {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a line of the trace.
    pub fn tell(&self, what: impl Into<String>) {
        self.lock().trace.push(what.into());
    }

    /// Counts what a night came to.
    pub fn reach(&self, kind: Kind) {
        self.lock().reached.count(kind);
    }

    /// What it came to so far.
    pub fn reached(&self) -> Reached {
        self.lock().reached.clone()
    }

    /// From now on every other swap is left behind by its worker.
    pub fn ambush(&self) {
        self.lock().ambush = true;
    }

    /// From now on every other write of the state table is sent twice by its client, and the copy arrives later.
    pub fn echo(&self) {
        self.lock().echo = true;
    }

    /// A late copy of a write whose worker has written again since.
    pub(crate) fn overtaken_write(&self) -> Option<usize> {
        let shared = self.lock();
        let newest = |late: &Late| shared.newest_of.get(&(late.worker.clone(), late.call)).copied();
        let overtaken = |late: &Late| late.call == "state.write" && newest(late) > Some(late.sent);
        shared.late.iter().position(overtaken)
    }

    /// The trace so far, taken.
    pub fn take_trace(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().trace)
    }

    /// Calls made so far.
    pub fn steps(&self) -> u64 {
        self.lock().steps
    }

    /// From now on half of the calls whose name begins so are throttled; `None`: no more.
    pub fn throttle(&self, calls: Option<&'static str>) {
        self.lock().throttled = calls;
    }

    /// From now on nothing goes wrong any more.
    pub fn calm(&self) {
        let mut shared = self.lock();
        (shared.calm, shared.ambush, shared.echo, shared.throttled) = (true, false, false, None);
    }

    /// Which effects are still to come. Without `unsent` only those on the wire: a worker may freeze for hours before it
    /// submits a statement.
    pub fn late(&self, unsent: bool) -> Vec<usize> {
        let of = |(_, late): &(usize, &Late)| unsent || late.call != "warehouse.submit";
        self.lock().late.iter().enumerate().filter(of).map(|(at, _)| at).collect()
    }

    /// The swaps among them.
    pub fn late_swaps(&self) -> Vec<usize> {
        let of = |(_, late): &(usize, &Late)| late.what.ends_with("/swap");
        self.lock().late.iter().enumerate().filter(of).map(|(at, _)| at).collect()
    }

    /// The partition of the newest of those.
    pub(crate) fn late_swap_of(&self) -> Option<String> {
        let shared = self.lock();
        let swap = shared.late.iter().rev().find(|late| late.what.ends_with("/swap"))?;
        swap.what.split('/').nth(2).map(str::to_owned)
    }

    /// One that is still to come, with what it is.
    pub fn take_late(&self, at: usize) -> (String, Effects) {
        let mut shared = self.lock();
        let Late { what, worker, call, sent, effect } = shared.late.remove(at);
        if shared.newest.get(call).is_some_and(|newest| *newest > sent) {
            shared.reached.count(Kind::Reordered);
        }
        let own = shared.newest_of.get(&(worker, call)).is_some_and(|newest| *newest > sent);
        if own && call == "state.write" {
            shared.reached.count(Kind::WriteReordered);
        }
        (what, effect)
    }

    /// What is on its way never arrives.
    pub(crate) fn drop_late(&self) {
        self.lock().late.clear();
    }

    /// A worker took a partition.
    pub(crate) fn taken(&self, partition: &str, worker: &str) {
        self.lock().takers.insert(partition.to_owned(), worker.to_owned());
    }

    /// A worker acts on a partition: is it still its own?
    pub(crate) fn acts(&self, partition: &str, worker: &str) {
        let mut shared = self.lock();
        if shared.takers.get(partition).is_some_and(|taker| taker != worker) {
            shared.reached.count(Kind::Zombie);
        }
    }
}

/// A worker's luck: what goes wrong with its calls. Clones are of the same worker.
#[derive(Clone)]
pub struct Luck {
    scene: Scene,
    fate: Arc<Mutex<Fate>>,
}

struct Fate {
    name: String,
    chance: Chance,
    /// One call in so many goes wrong; 0: none.
    one_in: usize,
    dead: bool,
}

impl Luck {
    /// A worker's luck, from a seed of its own.
    pub fn new(scene: &Scene, name: &str, one_in: usize, seed: u64) -> Self {
        let fate = Fate { name: name.to_owned(), chance: Chance::new(seed), one_in, dead: false };
        Self { scene: scene.clone(), fate: Arc::new(Mutex::new(fate)) }
    }

    /// Whether the worker died.
    pub fn is_dead(&self) -> bool {
        self.fate().dead
    }

    /// The worker's name.
    pub(crate) fn name(&self) -> String {
        self.fate().name.clone()
    }

    /// What all workers share.
    pub(crate) fn scene(&self) -> &Scene {
        &self.scene
    }

    fn fate(&self) -> MutexGuard<'_, Fate> {
        self.fate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn draw(&self, call: &'static str, what: &str) -> Option<Kind> {
        let (mut shared, mut fate) = (self.scene.lock(), self.fate());
        shared.steps += 1;
        let step = shared.steps;
        shared.newest.insert(call, step);
        shared.newest_of.insert((fate.name.clone(), call), step);
        let throttled = shared.throttled.is_some_and(|calls| call.starts_with(calls)) && fate.chance.once_in(2);
        let swap = call == "warehouse.submit" && what.ends_with("/swap");
        let one_in = fate.one_in;
        let trouble = match one_in {
            _ if shared.calm => None,
            _ if throttled => Some(Kind::Throttled),
            _ if swap && shared.ambush && fate.chance.once_in(2) => Some(*fate.chance.of(&AMBUSHES)),
            _ if call == "state.write" && shared.echo && fate.chance.once_in(2) => Some(Kind::LateTwice),
            0 => None,
            // Swaps are what everything is about.
            one_in if swap && fate.chance.once_in(one_in.min(5)) => Some(*fate.chance.of(&TROUBLES)),
            one_in => fate.chance.once_in(one_in).then(|| *fate.chance.of(&TROUBLES)),
        };
        let told = trouble.map_or_else(String::new, |trouble| format!("  !! {}", trouble.words()));
        if let Some(trouble) = trouble {
            shared.reached.count(trouble);
        }
        shared.trace.push(format!("    {} {call} {what}{told}", fate.name));
        trouble
    }

    async fn die<T>(&self) -> T {
        self.fate().dead = true;
        pending().await
    }

    fn later<T: 'static, E: 'static, F>(&self, call: &'static str, what: &str, effect: F)
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let worker = self.name();
        let effect = Box::pin(async move {
            let _nobody_hears = effect.await;
        });
        let what = format!("{worker} {call} {what}");
        let mut shared = self.scene.lock();
        let sent = shared.steps;
        shared.late.push(Late { what, worker, call, sent, effect });
    }

    /// Makes a call, with what goes wrong in it.
    pub(crate) async fn call<T, E, F>(
        &self,
        name: &'static str,
        what: &str,
        error: impl Fn(Effect) -> E + Send + Sync,
        effect: impl Fn() -> F + Send + Sync,
    ) -> Result<T, E>
    where
        T: Debug + Send + 'static,
        E: Send + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        yield_once().await;
        match self.draw(name, what) {
            Some(Kind::Throttled | Kind::FailedBefore) => Err(error(Effect::NotApplied)),
            Some(Kind::FailedAfter) => {
                let _lost = effect().await;
                Err(error(Effect::Unknown))
            }
            Some(Kind::Twice) => {
                let _lost = effect().await;
                effect().await
            }
            Some(Kind::Late) => {
                self.later(name, what, effect());
                Err(error(Effect::Unknown))
            }
            Some(Kind::LateTwice) => {
                self.later(name, what, effect());
                effect().await
            }
            Some(Kind::DiedBefore) => self.die().await,
            Some(Kind::DiedAfter) => {
                let _lost = effect().await;
                self.die().await
            }
            Some(Kind::DiedLate) => {
                self.later(name, what, effect());
                self.die().await
            }
            _ => effect().await,
        }
    }
}

async fn yield_once() {
    let mut yielded = false;
    poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
