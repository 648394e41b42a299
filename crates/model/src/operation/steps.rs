//! The steps of operations, and how long each may take.

use std::collections::BTreeMap;
use std::time::Duration;

use super::OperationKind;

/// The words of all steps. A step lasts until the next one begins.
pub const STEPS: &[&str] = &[
    // Of both drivers.
    "certificates",
    "credentials",
    "kubernetes",
    "nodes",
    "quota",
    "replacement",
    "report",
    "trust",
    "trustee",
    "volumes",
    // Of Heat's.
    "load balancers",
    "load balancers gone",
    "stack",
    "stack gone",
    "stack_owner",
    "volumes gone",
    // Of Cluster API's.
    "authorities",
    "credential",
    "found",
    "helm",
    "machines",
    "name",
    "namespace",
    "network",
    "prepared",
    "release gone",
    "secrets",
];

/// How long single steps may take, where the operator says so (`[operations] step_seconds`); all others as long as their operation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepLimits(BTreeMap<String, Duration>);

impl StepLimits {
    /// Reads steps and seconds, such as `volumes:1800, machines:7200`; none where a step is none of [`STEPS`], or has no whole seconds.
    pub fn read(text: &str) -> Option<Self> {
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        let limits = items.map(|item| {
            let (step, seconds) = item.split_once(':')?;
            let step = step.trim();
            let seconds = seconds.trim().parse::<u32>().ok().filter(|seconds| *seconds > 0)?;
            STEPS.contains(&step).then(|| (step.to_owned(), Duration::from_secs(seconds.into())))
        });
        limits.collect::<Option<BTreeMap<_, _>>>().map(Self)
    }

    /// How long a step of an operation of this kind may take; none: as long as the operation. What ends in a bounded time whatever the cloud says
    /// divides that time itself, and gives up nothing else because of one thing.
    pub fn of(&self, kind: Option<OperationKind>, step: &str) -> Option<Duration> {
        self.bound(kind).then(|| self.0.get(step).copied()).flatten()
    }

    /// Whether any step of an operation of this kind is bounded.
    pub fn bound(&self, kind: Option<OperationKind>) -> bool {
        let has_own_time = matches!(kind, Some(OperationKind::ClusterForceDelete | OperationKind::ClusterAbandon));
        !self.0.is_empty() && !has_own_time
    }

    /// When a step ends at the latest that began then, of an operation of this kind with this deadline; all times in milliseconds.
    pub fn end_ms(&self, kind: Option<OperationKind>, step: &str, began_ms: i64, deadline_ms: i64) -> i64 {
        let own = self.of(kind, step).and_then(|limit| i64::try_from(limit.as_millis()).ok());
        own.map_or(deadline_ms, |limit| began_ms.saturating_add(limit).min(deadline_ms))
    }

    /// The shortest of them.
    pub fn shortest(&self) -> Option<Duration> {
        self.0.values().min().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_words_of_their_own_that_fit_the_column_and_the_option() {
        for (at, step) in STEPS.iter().enumerate() {
            assert!(step.len() <= 64 && !step.contains([':', ',']), "{step}");
            assert!(!STEPS[..at].contains(step), "{step} is there twice");
        }
    }

    #[test]
    fn limits_are_of_steps_that_there_are_and_of_whole_seconds() {
        let read = StepLimits::read(" volumes:1800, load balancers : 60 ,").expect("two limits");
        let kind = Some(OperationKind::ClusterDelete);
        assert_eq!(read.of(kind, "volumes"), Some(Duration::from_secs(1800)));
        assert_eq!(read.of(kind, "load balancers"), Some(Duration::from_secs(60)));
        assert_eq!(read.of(kind, "stack"), None);
        assert_eq!(read.shortest(), Some(Duration::from_secs(60)));
        assert_eq!(StepLimits::read(" , "), Some(StepLimits::default()));
        for wrong in ["volumes", "volumes:", "volumes:0", "volumes:-1", "volumes:1.5", "volume:60", ":60", "volumes:60;stack:60"] {
            assert_eq!(StepLimits::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_step_ends_with_its_operation_or_before() {
        let limits = StepLimits::read("volumes:10").expect("a limit");
        let end = |kind, step: &str, deadline_ms| limits.end_ms(Some(kind), step, 5_000, deadline_ms);
        assert_eq!(end(OperationKind::ClusterDelete, "volumes", 60_000), 15_000);
        assert_eq!(end(OperationKind::ClusterDelete, "volumes", 12_000), 12_000);
        assert_eq!(end(OperationKind::ClusterDelete, "stack", 60_000), 60_000);
        assert_eq!(StepLimits::default().end_ms(Some(OperationKind::ClusterDelete), "volumes", 5_000, 60_000), 60_000);
        // Of an operation of a newer version, too.
        assert_eq!(limits.end_ms(None, "volumes", 5_000, 60_000), 15_000);
    }

    #[test]
    fn what_ends_in_a_bounded_time_anyway_divides_it_itself() {
        let limits = StepLimits::read("volumes:10").expect("a limit");
        for kind in OperationKind::ALL.iter().copied() {
            let is_bounded = !matches!(kind, OperationKind::ClusterForceDelete | OperationKind::ClusterAbandon);
            assert_eq!(limits.bound(Some(kind)), is_bounded, "{kind:?}");
            assert_eq!(limits.of(Some(kind), "volumes").is_some(), is_bounded, "{kind:?}");
            assert!(!StepLimits::default().bound(Some(kind)), "{kind:?}");
        }
    }
}
