//! One bad dataset never stops the others, whatever is bad about it and whatever sweep does; and it heals by itself once it is
//! mended.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use tidemark_domain::dataset::version_key;
use tidemark_domain::definition::Definition;
use tidemark_domain::id::{PartitionId, PartitionName};
use tidemark_domain::job::{Job, Kind, Line};
use tidemark_domain::update::Item;
use tidemark_engine::jobs;
use tidemark_engine::ports::{Clock as _, Objects as _};

use super::quiet::with_datasets;
use super::sweep::{all_jobs, sweep};
use super::world::{TOML, World};

/// What is bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bad {
    Definition,
    Prefix,
    Target,
    CopyRole,
}

impl Bad {
    fn spoil(self, world: &World, bad: &Definition) {
        let prefix = format!("{}/", bad.name);
        match self {
            Self::Definition => {
                let broken: Item = [("text".to_owned(), "[d000]\nsource = 7".into())].into();
                world.state.put(version_key(&bad.name, &bad.hash()), broken);
            }
            Self::Prefix => world.objects.deny(&[("lake", &prefix)]),
            Self::Target => world.warehouse.set_target(&bad.target, false).unwrap(),
            Self::CopyRole => world.warehouse.deny_role(Some(&format!("s3://lake/{prefix}"))),
        }
    }

    fn mend(self, world: &World, bad: &Definition) {
        match self {
            Self::Definition => {
                let whole: Item = [("text".to_owned(), bad.to_text().into())].into();
                world.state.put(version_key(&bad.name, &bad.hash()), whole);
            }
            Self::Prefix => world.objects.deny(&[]),
            Self::Target => world.warehouse.set_target(&bad.target, true).unwrap(),
            Self::CopyRole => world.warehouse.deny_role(None),
        }
    }
}

async fn put(world: &mut World, key: &str, line: &str) {
    world.objects.put("lake", key, Bytes::from(format!("{line}\n"))).await.unwrap();
    world.send_events();
}

/// Time passes; sweep and rebuild do what is to be done.
async fn hours(world: &mut World, hours: u32) {
    for _ in 0..hours * 12 {
        world.clock.advance(Duration::from_mins(5));
        sweep(world).await;
        for _ in 0..200 {
            if world.rebuild().await.is_none() {
                break;
            }
        }
    }
}

/// A target's rows by day.
fn rows(world: &World, of: &Definition) -> BTreeMap<String, String> {
    let rows = world.warehouse.rows(&of.target).into_iter();
    rows.map(|(condition, rows)| (condition[condition.len() - 3..condition.len() - 1].to_owned(), rows.join(",")))
        .collect()
}

/// What it comes to: the day that is rebuilt after the warehouse was restored, the one whose message was lost, the one whose
/// event was lost.
fn whole() -> BTreeMap<String, String> {
    [("24", "1,2"), ("25", "3"), ("26", "4")].map(|(day, rows)| (day.to_owned(), rows.to_owned())).into()
}

#[tokio::test]
async fn whatever_is_bad_about_one_dataset_the_others_are_woken_looked_over_booked_tidied_and_their_jobs_advanced() {
    for bad in [Bad::Definition, Bad::Prefix, Bad::Target, Bad::CopyRole] {
        let mut world = World::new(TOML).await;
        let mut datasets = with_datasets(&world, 2).await;
        datasets.push(world.definition.clone());
        for dataset in &datasets {
            put(&mut world, &format!("{}/dt=2026-10-24/a.csv", dataset.name), "1").await;
        }
        world.rest("").await;
        // The warehouse is restored to this moment: tidy's part.
        let snapshot = world.warehouse.backup();
        for dataset in &datasets {
            put(&mut world, &format!("{}/dt=2026-10-24/b.csv", dataset.name), "2").await;
        }
        world.rest("").await;
        world.warehouse.restore(&snapshot);
        // A message is lost: wake's part. An event is lost: look's. And a job.
        for dataset in &datasets {
            put(&mut world, &format!("{}/dt=2026-10-25/a.csv", dataset.name), "3").await;
        }
        world.mark().await;
        world.queue.lose_all();
        for dataset in &datasets {
            world.objects.put_unseen("lake", &format!("{}/dt=2026-10-26/a.csv", dataset.name), "4\n");
            let ports = world.engine().ports;
            let partition = PartitionName::new("dt=2026-10-25").unwrap();
            let id = PartitionId { dataset: dataset.name.clone(), partition };
            let job = Job {
                force: true,
                ..Job::new(world.clock.id(), dataset.name.clone(), Kind::Backfill, 1, "alice", world.clock.now())
            };
            jobs::make(&ports, "control", &job, &[Line::of(id.partition)]).await.unwrap();
        }
        bad.spoil(&world, &datasets[0]);
        hours(&mut world, 27).await;
        let open = async |world: &World| -> Vec<String> {
            let jobs = all_jobs(world).await.into_iter().filter(Job::is_open);
            jobs.map(|job| job.dataset.to_string()).collect()
        };
        let booked = |world: &World, of: &Definition| {
            let prefix = format!("{}/", of.name);
            world.warehouse.files().iter().any(|(_, key, ..)| key.starts_with(&format!("{prefix}dt=2026-10-26")))
        };
        for good in &datasets[1..] {
            assert_eq!(rows(&world, good), whole(), "{bad:?}: {}", good.name);
            assert!(booked(&world, good), "{bad:?}: {}", good.name);
            assert!(!open(&world).await.contains(&good.name.to_string()), "{bad:?}: {}", good.name);
        }
        assert_ne!(rows(&world, &datasets[0]), whole(), "{bad:?}: it is bad");
        let mails = world.announcer.alerts().len();
        assert!(mails < 8, "{bad:?}: {:?}", world.announcer.alerts());

        // Mended, it heals without a hand on it.
        bad.mend(&world, &datasets[0]);
        hours(&mut world, 27).await;
        assert_eq!(rows(&world, &datasets[0]), whole(), "{bad:?}, mended");
        assert!(booked(&world, &datasets[0]) && open(&world).await.is_empty(), "{bad:?}, mended");
    }
}
