//! Restores: the state table goes back to a backup, or the warehouse to a snapshot, while everything goes on.

use std::collections::BTreeMap;

use tidemark_domain::dataset::Mode;
use tidemark_domain::update::{Item, Key};
use tidemark_engine::memory::{self, End};
use tidemark_engine::ports::Clock as _;

use crate::night::Night;
use crate::reached::Kind;

/// What can be gone back to.
pub(crate) enum Backup {
    /// The partition items.
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
            // A backup of the whole table has the head as it was: partitions let go while it was retired go with that.
            None if self.restores && self.mode() != Some(Mode::Retired) && self.apply.is_none() => {
                self.restores = false;
                self.backup = Some(if self.chance.once_in(2) {
                    Backup::Table(self.world.partition_items())
                } else {
                    Backup::Warehouse(self.world.warehouse.backup())
                });
                self.tell("a backup is made");
            }
            None => {}
            Some(Backup::Table(items)) => {
                self.tell("the state table is restored");
                self.world.scene.reach(Kind::TableRestored);
                self.world.forgotten_before = self.world.clock.id().to_string();
                for key in self.world.partition_items().into_keys() {
                    match items.get(&key) {
                        Some(item) => self.world.state.put(key, item.clone()),
                        None => self.world.state.remove(&key),
                    }
                }
                self.restored();
            }
            Some(Backup::Warehouse(snapshot)) => {
                self.tell("the warehouse is restored, what runs there is over");
                self.world.scene.reach(Kind::WarehouseRestored);
                for running in self.world.warehouse.running() {
                    let over = End::Fail("The connection attempt failed.".to_owned());
                    self.world.warehouse.end(&running.id, &over);
                }
                self.world.warehouse.restore(&snapshot);
                let lost: Vec<String> = committed.difference(&self.world.committed()).cloned().collect();
                self.world.lost.extend(lost);
                self.restored();
            }
        }
    }

    fn restored(&mut self) {
        self.world.restored = true;
        self.world.eye.restored();
    }
}
