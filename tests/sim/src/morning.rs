//! The morning after: faults stop, everything comes to rest, what is broken is mended.

use std::time::Duration;

use tidemark_domain::dataset::Mode;
use tidemark_engine::memory::{End, Pace};

use crate::night::Night;

impl Night {
    /// Faults stop: what stalls goes on, what is on the wire arrives, what runs in Redshift ends, operators finish.
    pub fn dawn(&mut self) -> Result<(), String> {
        self.tell("dawn");
        self.world.scene.calm();
        let mut polls = 0;
        while !self.invocations.is_empty() || !self.world.scene.late(true).is_empty() {
            self.poll();
            self.arrive();
            polls += 1;
            if polls > 100_000 {
                return Err("an invocation never ends".to_owned());
            }
        }
        while self.apply.is_some() {
            self.apply();
        }
        for suffix in ["/fence", "/stage", "/swap"] {
            self.world.warehouse.set_pace(suffix, Pace::AtOnce);
        }
        for running in self.world.warehouse.running() {
            self.world.warehouse.end(&running.id, &End::Run);
        }
        self.world.warehouse.forget_ends();
        match self.mode() {
            Some(Mode::Paused) => self.world.set_head(&[("mode", "active".into())]),
            Some(Mode::Retired) => {
                self.begin_apply(false);
                while self.apply.is_some() {
                    self.apply();
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Time passes until look has had its turn, and tidy where something was restored; it may take them two to tell what one
    /// of them left to the other.
    pub fn hours_later(&mut self) -> Result<(), String> {
        let hours = if self.world.restored { 25 } else { 1 };
        self.tell(format!("{hours} hours later"));
        self.world.clock.advance(Duration::from_mins(hours * 60 + 1));
        self.quiet_round()
    }

    /// Half a minute of a quiet day: everything that waits is handled, nothing goes wrong.
    pub fn quiet_round(&mut self) -> Result<(), String> {
        self.world.clock.advance(Duration::from_secs(20));
        self.begin_sweep_quietly();
        while !self.world.events.is_empty() {
            self.begin_mark();
            self.all_end()?;
        }
        for _ in 0..300 {
            if !self.begin_rebuild() {
                break;
            }
            self.all_end()?;
        }
        self.world.eye.look();
        Ok(())
    }

    fn begin_sweep_quietly(&mut self) {
        self.begin_sweep();
        let _ended = self.all_end();
    }

    fn all_end(&mut self) -> Result<(), String> {
        let mut polls = 0;
        while !self.invocations.is_empty() {
            self.poll();
            polls += 1;
            if polls > 100_000 {
                return Err("an invocation never ends".to_owned());
            }
        }
        Ok(())
    }

    /// Files that can't be loaded are replaced, and every partition is replayed.
    pub fn mend(&mut self) {
        self.tell("bad files are mended, everything is replayed");
        for key in self.world.objects.keys("lake") {
            let bad = self.world.objects.object("lake", &key).is_some_and(|(bytes, _)| bytes.ends_with(b"#bad\n"));
            if bad && let Some(name) = key.strip_prefix("orders/") {
                self.world.put(name, &format!("mended {name}\n"));
            }
        }
        for partition in self.world.items().into_keys() {
            let replay = format!(r#"{{"version":1,"dataset":"orders","partition":"{partition}"}}"#);
            self.world.queue.put(&replay, "by hand");
        }
    }
}
