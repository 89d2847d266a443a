//! An ambush: a worker leaves its swap behind, unsent or on the wire; its batch is given up, others take over, and the swap lands
//! when nobody thinks of it any more.

use tidemark_engine::memory::Pace;

use crate::night::{LEASE, Night, OUTCOME, TOKEN, WINDOW};

/// Workers who come meanwhile, at most.
const MEANWHILE: usize = 3;
/// Steps each of them gets, at most; a whole rebuild has about forty.
const STEPS: usize = 60;

impl Night {
    /// Springs an ambush where a swap was left behind just now; `false`: none was.
    pub(crate) fn act_in_ambush(&mut self) -> bool {
        let left = self.world.scene.late_swaps().len();
        let fresh = left > self.ambushed;
        self.ambushed = left;
        if fresh {
            self.spring();
        } else if self.chance.once_in(40) {
            let pace = *self.chance.of(&[Pace::AtOnce, Pace::ByHand]);
            self.tell(format!("/swap ends {pace:?}"));
            self.world.warehouse.set_pace("/swap", pace);
        } else if self.chance.once_in(3) {
            return false;
        } else {
            self.work(STEPS);
        }
        true
    }

    /// Work goes on as it should, `most` steps at a time: otherwise no swap would ever be there to be left behind.
    pub(crate) fn work(&mut self, most: usize) {
        match self.chance.below(8) {
            0 => self.change(),
            1..=2 => self.begin_mark(),
            3..=4 => self.wait(31),
            _ => {
                self.begin_rebuild();
            }
        }
        if let Some(newest) = self.invocations.len().checked_sub(1) {
            let steps = 1 + self.chance.below(most);
            self.poll_one(newest, steps);
        }
    }

    fn spring(&mut self) {
        let Some(partition) = self.world.scene.late_swap_of() else { return };
        self.tell(format!("a swap of {partition} was left behind"));
        self.world.scene.throttle(None);
        if self.chance.once_in(3) {
            self.overrun(&partition);
        } else {
            for _ in 0..=self.chance.below(MEANWHILE) {
                self.give_up();
                let steps = 1 + self.chance.below(STEPS);
                self.another_comes(&partition, steps);
            }
        }
        let swaps = self.world.scene.late_swaps();
        if !self.chance.once_in(4)
            && let Some(at) = swaps.last()
        {
            self.arrive_one(*at);
            self.ambushed = swaps.len() - 1;
        }
    }

    /// The swap runs on until its batch is ended for it, and the copy that lands was kept for longer than its token.
    fn overrun(&mut self, partition: &str) {
        self.wait(WINDOW);
        self.another_comes(partition, STEPS);
        self.another_comes(partition, STEPS);
        self.wait(TOKEN);
        if self.chance.once_in(2) {
            let steps = 1 + self.chance.below(STEPS);
            self.another_comes(partition, steps);
        }
    }

    fn another_comes(&mut self, partition: &str, steps: usize) {
        self.send_by_hand(partition);
        self.wait(31);
        if self.begin_rebuild() {
            self.poll_one(self.invocations.len() - 1, steps);
        }
    }

    /// Whatever lets the next taker give the batch up, or take it over.
    fn give_up(&mut self) {
        match self.chance.below(8) {
            0..=2 => self.wait(OUTCOME),
            3 => self.wait(TOKEN),
            4..=5 => self.wait(WINDOW),
            6 => self.wait(LEASE),
            _ => {
                self.begin_apply(true);
                while self.apply.is_some() {
                    self.apply();
                }
            }
        }
    }
}
