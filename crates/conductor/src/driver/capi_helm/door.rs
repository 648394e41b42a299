//! The doors to the management clusters. Each has its own kubeconfig, its own helm, its own watches and its own patience.
//!
//! What one of them does to those who speak to it must not reach the others: so many turns at most, and so many looks at health, are under way
//! at one of them, and each has a share that leaves room for all others and for clusters of other drivers. Who finds no place waits without a permit.
//!
//! Whether one can be asked is known before somebody wants to know: it is asked for its version again and again. A new cluster goes to one that
//! answers; nothing else is decided by it.

use std::sync::Arc;
use std::time::Duration;

use model::placement::{DEFAULT, ManagementCluster, Standing};
use provider_clients::{Helm, Management};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::news::News;
use super::settings::CapiSettings;
use crate::health;
use crate::outcome::Failure;

/// Between two questions for the version of one that answers, and of one that does not.
const UP: Duration = Duration::from_secs(10);
const DOWN: Duration = Duration::from_secs(3);
/// One that takes longer to tell its version is no place for a new cluster.
const PATIENCE: Duration = Duration::from_secs(3);

/// The management cluster as its kubeconfig says now, or why that cannot be used.
pub type Source = watch::Receiver<Result<Management, Arc<str>>>;

/// The driver's settings and its management clusters; a conductor without them serves no cluster of this driver.
#[derive(Debug)]
pub struct Capi {
    pub(crate) settings: CapiSettings,
    /// In the order of the configuration, one at least.
    pub(crate) doors: Vec<Arc<Door>>,
}

/// What a door is made of.
#[derive(Debug)]
pub struct DoorParts {
    pub cluster: ManagementCluster,
    pub management: Source,
    pub helm: Helm,
    pub news: News,
}

/// One management cluster.
#[derive(Debug)]
pub(crate) struct Door {
    pub cluster: ManagementCluster,
    pub management: Source,
    pub helm: Helm,
    /// What is heard of clusters.
    pub news: Arc<News>,
    /// One for each turn that may speak to it.
    pub turns: Arc<Semaphore>,
    /// One for each look at the health of a cluster on it.
    looks: Arc<Semaphore>,
    /// Why it cannot be asked, as far as is known; none: it can.
    trouble: watch::Sender<Option<Arc<str>>>,
}

impl Capi {
    /// `max_running`: turns that the conductor works on at once, for all that it does.
    pub fn new(settings: CapiSettings, doors: Vec<DoorParts>, max_running: usize) -> Self {
        let places = |all: usize| Arc::new(Semaphore::new(share(all, doors.len())));
        let all: Vec<_> = doors.iter().map(|_| (places(max_running), places(health::AT_ONCE))).collect();
        let doors = doors.into_iter().zip(all).map(|(parts, (turns, looks))| {
            let DoorParts { cluster, management, helm, news } = parts;
            let trouble = watch::channel(Some(Arc::from("it was not asked yet"))).0;
            Arc::new(Door { cluster, management, helm, news: Arc::new(news), turns, looks, trouble })
        });
        Self { settings, doors: doors.collect() }
    }

    /// The one of this name.
    pub(super) fn door(&self, name: &str) -> Option<&Arc<Door>> {
        self.doors.iter().find(|door| door.cluster.name == name)
    }

    /// Where a cluster is, if that is known without asking: where it is recorded, else upstream's.
    pub(super) fn known(&self, recorded: Option<&str>) -> Option<&Arc<Door>> {
        self.door(recorded.unwrap_or(DEFAULT))
    }

    /// What a management cluster is called where its name may be needed.
    pub(super) fn called(&self, name: Option<&str>) -> String {
        match name {
            Some(name) if self.doors.len() > 1 || self.door(name).is_none() => format!("management cluster {name}"),
            _ => "the management cluster".to_owned(),
        }
    }

    /// Says which one it was that went wrong, where there are several.
    pub(super) fn named(&self, door: &Door, reason: &str) -> String {
        if self.doors.len() > 1 { format!("management cluster {}: {reason}", door.cluster.name) } else { reason.to_owned() }
    }
}

/// What one of so many may have of a number of places: they and what is beside them have equal parts.
fn share(places: usize, doors: usize) -> usize {
    (places / (doors + 1)).max(1)
}

impl Door {
    /// Its client.
    ///
    /// # Errors
    /// When its kubeconfig cannot be used; its operator may be in the middle of writing it.
    pub fn open(&self, capi: &Capi) -> Result<Management, Failure> {
        let opened = self.management.borrow().clone();
        opened.map_err(|reason| Failure::retry(format!("{}: {reason}", capi.called(Some(&self.cluster.name)))))
    }

    /// A place for a look at health; none when so many are under way.
    pub fn look(&self) -> Option<OwnedSemaphorePermit> {
        self.looks.clone().try_acquire_owned().ok()
    }

    /// Whether no other look can begin.
    pub fn is_looked_at_enough(&self) -> bool {
        self.looks.available_permits() == 0
    }

    /// Why it cannot be asked; none: it answered when it was last asked for its version.
    pub fn trouble(&self) -> Option<String> {
        self.trouble.borrow().as_deref().map(str::to_owned)
    }

    /// How it stands with so many clusters on it.
    pub fn standing(&self, placed: i64) -> Standing {
        Standing { placed, trouble: self.trouble() }
    }

    fn stands(&self, trouble: Option<Arc<str>>) {
        let name = &self.cluster.name;
        let before = self.trouble.send_replace(trouble.clone());
        match (&trouble, before) {
            (None, Some(_)) => tracing::info!(management_cluster = name, "The management cluster answers"),
            (Some(reason), None) => tracing::warn!(management_cluster = name, %reason, "The management cluster does not answer"),
            (Some(reason), Some(_)) => tracing::debug!(management_cluster = name, %reason, "the management cluster does not answer"),
            (None, None) => {}
        }
    }
}

/// Asks for the version until `stop`, at once when the kubeconfig has changed.
pub(crate) async fn run(door: Arc<Door>, stop: CancellationToken) {
    let mut source = door.management.clone();
    loop {
        let opened = source.borrow_and_update().clone();
        let asked = async {
            let management = opened?;
            let late = |_| Arc::from(format!("it has not told its version within {} s", PATIENCE.as_secs()));
            let told = tokio::time::timeout(PATIENCE, management.probe()).await.map_err(late)?;
            told.map_err(|error| Arc::from(error.to_string()))
        };
        let trouble = tokio::select! {
            biased;
            () = stop.cancelled() => return,
            asked = asked => asked.err(),
        };
        let pause = if trouble.is_none() { UP } else { DOWN };
        door.stands(trouble);
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            Ok(()) = source.changed() => {}
            () = tokio::time::sleep(pause.mul_f64(model::random::range(0.5..1.0))) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use provider_clients::{HelmOptions, Watchers};

    use super::*;
    use crate::driver::capi_helm::tests::settings;

    fn capi(names: &[&str]) -> Capi {
        let options = || HelmOptions {
            program: "helm".into(),
            warden: "magnum-conductor".into(),
            libraries: None,
            environment: Vec::new(),
            kubeconfig: None,
            at_once: 1,
            deadline: Duration::from_secs(1),
        };
        let parts = names.iter().map(|name| DoorParts {
            cluster: ManagementCluster::unlimited(name),
            management: watch::channel(Err(Arc::from("none"))).1,
            helm: Helm::new(options(), Watchers::default()),
            news: News::new(Duration::from_secs(90), Duration::from_secs(600)),
        });
        Capi::new(settings(), parts.collect(), 8)
    }

    #[test]
    fn a_cluster_of_which_nothing_is_recorded_is_on_upstreams_or_to_be_looked_for() {
        let name = |capi: &Capi, recorded| capi.known(recorded).map(|door| door.cluster.name.clone());
        for (doors, recorded, wanted) in [
            (&["default", "blue"][..], None, Some("default")),
            (&["default", "blue"], Some("blue"), Some("blue")),
            // To be looked for, also where there is one only: it may have been on upstream's, which is not configured any more.
            (&["blue"], None, None),
            (&["blue", "green"], None, None),
            (&["blue"], Some("gone"), None),
        ] {
            assert_eq!(name(&capi(doors), recorded).as_deref(), wanted, "{doors:?} {recorded:?}");
        }
    }

    #[test]
    fn all_that_one_management_cluster_can_hold_up_leaves_places_for_the_others() {
        for doors in 1..40 {
            assert!(share(64, doors) >= 1 && share(64, doors) * doors < 64, "{doors}");
        }
        let capi = capi(&["blue", "green"]);
        let turns = |at: usize| capi.doors[at].turns.clone();
        let all: Vec<_> = std::iter::from_fn(|| turns(0).try_acquire_owned().ok()).collect();
        assert_eq!((all.len(), turns(1).available_permits()), (2, 2));
    }

    #[test]
    fn names_are_told_where_there_are_several() {
        let (one, two) = (capi(&["default"]), capi(&["blue", "green"]));
        assert_eq!(
            (one.named(&one.doors[0], "away"), two.named(&two.doors[1], "away")),
            ("away".into(), "management cluster green: away".into())
        );
        assert_eq!(
            (one.called(Some("default")), two.called(Some("blue"))),
            ("the management cluster".into(), "management cluster blue".into())
        );
    }
}
