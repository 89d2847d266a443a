//! What goes wrong in a call: it fails before its effect or after it, happens twice, happens later, or its caller dies.
//!
//! Every call waits for one more poll before it is made, so whoever polls several workers decides in which order their calls
//! happen. What happens later waits on the [`Scene`] until the night lets it arrive, in any order.

use std::fmt::Debug;
use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use tidemark_engine::ports::Effect;

use crate::chance::Chance;

/// What goes wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trouble {
    Throttled,
    FailBefore,
    FailAfter,
    Twice,
    Late,
    LateTwice,
    DieBefore,
    DieAfter,
    DieLate,
}

const TROUBLES: [Trouble; 8] = [
    Trouble::FailBefore,
    Trouble::FailAfter,
    Trouble::Twice,
    Trouble::Late,
    Trouble::LateTwice,
    Trouble::DieBefore,
    Trouble::DieAfter,
    Trouble::DieLate,
];

/// An effect that is still to come.
pub type Late = (String, Pin<Box<dyn Future<Output = ()>>>);
type SendLate = (String, Pin<Box<dyn Future<Output = ()> + Send>>);

/// What all workers of a night share. Clones are the same scene.
#[derive(Clone, Default)]
pub struct Scene(Arc<Mutex<Shared>>);

#[derive(Default)]
struct Shared {
    throttled: Option<&'static str>,
    calm: bool,
    late: Vec<SendLate>,
    trace: Vec<String>,
    steps: u64,
    faults: u64,
}

impl Scene {
    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a line of the trace.
    pub fn tell(&self, what: impl Into<String>) {
        self.lock().trace.push(what.into());
    }

    /// Counts something that went wrong outside of a call.
    pub fn count_fault(&self) {
        self.lock().faults += 1;
    }

    /// The trace so far, taken.
    pub fn take_trace(&self) -> Vec<String> {
        std::mem::take(&mut self.lock().trace)
    }

    /// Calls made and faults injected so far.
    pub fn counts(&self) -> (u64, u64) {
        let shared = self.lock();
        (shared.steps, shared.faults)
    }

    /// From now on half of the calls whose name begins so are throttled; `None`: no more.
    pub fn throttle(&self, calls: Option<&'static str>) {
        self.lock().throttled = calls;
    }

    /// From now on nothing goes wrong any more.
    pub fn calm(&self) {
        let mut shared = self.lock();
        (shared.calm, shared.throttled) = (true, None);
    }

    /// Which effects are still to come. Without `unsent` only those on the wire: a worker may freeze for hours before it
    /// submits a statement.
    pub fn late(&self, unsent: bool) -> Vec<usize> {
        let of = |(_, (what, _)): &(usize, &SendLate)| unsent || !what.contains("warehouse.submit");
        self.lock().late.iter().enumerate().filter(of).map(|(at, _)| at).collect()
    }

    /// One that is still to come.
    pub fn take_late(&self, at: usize) -> Late {
        let (what, effect) = self.lock().late.remove(at);
        (what, effect)
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

    fn fate(&self) -> MutexGuard<'_, Fate> {
        self.fate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn draw(&self, call: &'static str, what: &str) -> Option<Trouble> {
        let (mut shared, mut fate) = (self.scene.lock(), self.fate());
        shared.steps += 1;
        let throttled = shared.throttled.is_some_and(|calls| call.starts_with(calls)) && fate.chance.once_in(2);
        let one_in = fate.one_in;
        let trouble = match one_in {
            _ if shared.calm => None,
            _ if throttled => Some(Trouble::Throttled),
            0 => None,
            // Swaps are what everything is about.
            one_in if what.ends_with("/swap") && fate.chance.once_in(one_in.min(5)) => Some(*fate.chance.of(&TROUBLES)),
            one_in => fate.chance.once_in(one_in).then(|| *fate.chance.of(&TROUBLES)),
        };
        shared.faults += u64::from(trouble.is_some());
        let told = trouble.map_or_else(String::new, |trouble| format!("  !! {trouble:?}"));
        shared.trace.push(format!("    {} {call} {what}{told}", fate.name));
        trouble
    }

    /// What this worker sent before arrives before what it sends next.
    pub(crate) async fn deliver(&self, call: &str) {
        let sent = format!("{} {call} ", self.fate().name);
        loop {
            let (what, effect) = {
                let mut shared = self.scene.lock();
                let Some(at) = shared.late.iter().position(|(what, _)| what.starts_with(&sent)) else { return };
                shared.late.remove(at)
            };
            self.scene.tell(format!("    late: {what}"));
            effect.await;
        }
    }

    async fn die<T>(&self) -> T {
        self.fate().dead = true;
        pending().await
    }

    fn later<T: 'static, E: 'static, F>(&self, call: &'static str, what: &str, effect: F)
    where
        F: Future<Output = Result<T, E>> + Send + 'static,
    {
        let told = format!("{} {call} {what}", self.fate().name);
        let effect = Box::pin(async move {
            let _nobody_hears = effect.await;
        });
        self.scene.lock().late.push((told, effect));
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
            None => effect().await,
            Some(Trouble::Throttled | Trouble::FailBefore) => Err(error(Effect::NotApplied)),
            Some(Trouble::FailAfter) => {
                let _lost = effect().await;
                Err(error(Effect::Unknown))
            }
            Some(Trouble::Twice) => {
                let _lost = effect().await;
                effect().await
            }
            Some(Trouble::Late) => {
                self.later(name, what, effect());
                Err(error(Effect::Unknown))
            }
            Some(Trouble::LateTwice) => {
                self.later(name, what, effect());
                effect().await
            }
            Some(Trouble::DieBefore) => self.die().await,
            Some(Trouble::DieAfter) => {
                let _lost = effect().await;
                self.die().await
            }
            Some(Trouble::DieLate) => {
                self.later(name, what, effect());
                self.die().await
            }
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
