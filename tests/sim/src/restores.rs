//! Restores: the state table goes back to a backup, or the warehouse to a snapshot, as an operator does it: nothing of Tidemark runs
//! meanwhile, and what was sent before is over.

use std::collections::{BTreeMap, BTreeSet};

use tidemark_domain::update::{Item, Key};
use tidemark_engine::memory::{self, End};

use crate::night::{Night, SIGNED};
use crate::reached::Kind;

/// What can be gone back to.
pub(crate) enum Backup {
    /// The whole state table.
    Table(BTreeMap<Key, Item>),
    /// Everything that was committed in Redshift.
    Warehouse(memory::Backup),
}

impl Night {
    /// In a night of restores: a backup is made, and restored when this comes again and something was committed since; once.
    pub(crate) fn restore(&mut self) {
        let committed = self.world.committed();
        if self.backup.is_some() && committed.len() <= self.committed_at_backup {
            return;
        }
        self.committed_at_backup = committed.len();
        match self.backup.take() {
            // Between an apply's head and its marks the head says that it owes them; here it doesn't.
            None if self.restores && self.apply.is_none() => {
                self.restores = false;
                self.backup = Some(if self.chance.once_in(2) {
                    Backup::Table(self.world.state.items())
                } else {
                    Backup::Warehouse(self.world.warehouse.backup())
                });
                self.tell("a backup is made");
            }
            None => {}
            Some(Backup::Table(items)) => {
                self.stop(&End::Run);
                self.tell("the state table is restored");
                self.world.scene.reach(Kind::TableRestored);
                self.world.forget_untold();
                for key in self.world.state.items().into_keys() {
                    if !items.contains_key(&key) {
                        self.world.state.remove(&key);
                    }
                }
                for (key, item) in items {
                    self.world.state.put(key, item);
                }
                self.start();
            }
            Some(Backup::Warehouse(snapshot)) => {
                self.stop(&End::Fail("The connection attempt failed.".to_owned()));
                self.tell("the warehouse is restored");
                self.world.scene.reach(Kind::WarehouseRestored);
                let committed = self.world.committed();
                self.world.warehouse.restore(&snapshot);
                let lost: BTreeSet<String> = committed.difference(&self.world.committed()).cloned().collect();
                self.world.lost.extend(lost);
                self.start();
            }
        }
    }

    /// The functions are stopped: invocations come to their end, what was signed before is taken no more, what runs ends so.
    fn stop(&mut self, end: &End) {
        self.tell("the functions are stopped");
        self.abandon();
        self.world.scene.drop_late();
        self.wait(SIGNED);
        for running in self.world.warehouse.running() {
            self.world.warehouse.end(&running.id, end);
        }
        self.world.eye.look();
    }

    /// They run again, and the definition is applied.
    fn start(&mut self) {
        self.world.restored = true;
        self.world.eye.restored();
        self.tell("the functions run again");
        self.apply_again();
    }
}
