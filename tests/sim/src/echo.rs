//! Echoes: a client sends a worker's write twice, and the copy arrives when the worker has written again, under the same fence.

use crate::night::{Kind, Night};

impl Night {
    /// Work goes on, and copies of writes arrive as soon as they are overtaken; `false`: nothing of it this time.
    pub(crate) fn act_among_echoes(&mut self) -> bool {
        debug_assert_eq!(self.kind, Kind::Echo);
        if self.chance.once_in(4) {
            return false;
        }
        self.work(8);
        if let Some(at) = self.world.scene.overtaken_write() {
            self.arrive_one(at);
        }
        true
    }
}
