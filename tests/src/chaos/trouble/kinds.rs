//! All that can go wrong, how often each is drawn, and how often each must have happened in a long run.

use std::time::Duration;

use cloud_simulator::How;

/// What can happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    KillConductor,
    StopConductor,
    FreezeConductor,
    FreezeConductorShortly,
    KillApi,
    StopApi,
    KillBroker,
    StopBroker,
    KillDatabase,
    StopDatabase,
    /// One call to the cloud goes wrong in this manner.
    CloudCall(Manner),
    /// A service of the cloud is away in this manner for seconds.
    CloudOutage(Manner),
    StackFails,
    /// The same of the management cluster.
    ManagementCall(Manner),
    ManagementOutage(Manner),
    WatchesDrop,
}

/// How a call goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Manner {
    Fails,
    IsAway,
    LosesAnswer,
    Unauthorized,
    Refuses,
    IsSlow,
}

impl Manner {
    /// Whether this call may go wrong so. A login that is told 401 has been told that the password is wrong; a trust or an application
    /// credential is made with the user's own token, which nobody but he can get anew.
    pub fn fits(self, at: &str) -> bool {
        let is_for_good = matches!(at, "keystone.token_issue" | "keystone.trust_create" | "keystone.application_credential_create");
        self != Self::Unauthorized || !is_for_good
    }

    /// As the simulators are told. `words` are the service's own, or its load balancer's.
    pub fn how(self, words: &str, slow: Duration) -> How {
        match self {
            Self::Fails => How::Status(500, words.to_owned()),
            Self::IsAway => How::Status(503, words.to_owned()),
            Self::LosesAnswer => How::AcceptThenLose,
            Self::Unauthorized => How::Unauthorized,
            Self::Refuses => How::Refuse,
            Self::IsSlow => How::Slow(slow),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Fails => "is answered with 500",
            Self::IsAway => "is answered with 503",
            Self::LosesAnswer => "is carried out, and its answer is lost",
            Self::Unauthorized => "is answered with 401",
            Self::Refuses => "is cut off before anything is done",
            Self::IsSlow => "takes seconds",
        }
    }
}

/// One kind of trouble.
pub struct Kind {
    pub what: What,
    /// How often it is drawn, relative to the others.
    pub often: u32,
    /// How often it must have happened in a run of [`LONG`] operations.
    least: usize,
}

/// From so many operations on a run is a long one.
pub const LONG: usize = 2_000;

const fn kind(what: What, often: u32, least: usize) -> Kind {
    Kind { what, often, least }
}

/// Every kind, in the order of the table.
pub static KINDS: [Kind; 30] = [
    kind(What::KillConductor, 10, 20),
    kind(What::StopConductor, 4, 8),
    kind(What::FreezeConductor, 6, 10),
    kind(What::FreezeConductorShortly, 4, 8),
    kind(What::KillApi, 4, 8),
    kind(What::StopApi, 2, 4),
    kind(What::KillBroker, 4, 8),
    kind(What::StopBroker, 2, 4),
    kind(What::KillDatabase, 2, 4),
    kind(What::StopDatabase, 2, 4),
    kind(What::CloudCall(Manner::Fails), 4, 6),
    kind(What::CloudCall(Manner::IsAway), 4, 6),
    kind(What::CloudCall(Manner::LosesAnswer), 6, 10),
    kind(What::CloudCall(Manner::Unauthorized), 2, 4),
    kind(What::CloudCall(Manner::Refuses), 2, 4),
    kind(What::CloudCall(Manner::IsSlow), 4, 6),
    kind(What::CloudOutage(Manner::IsAway), 2, 3),
    kind(What::CloudOutage(Manner::Refuses), 1, 3),
    kind(What::CloudOutage(Manner::IsSlow), 1, 3),
    kind(What::StackFails, 4, 8),
    kind(What::ManagementCall(Manner::Fails), 2, 3),
    kind(What::ManagementCall(Manner::IsAway), 2, 3),
    kind(What::ManagementCall(Manner::LosesAnswer), 4, 6),
    kind(What::ManagementCall(Manner::Unauthorized), 1, 2),
    kind(What::ManagementCall(Manner::Refuses), 1, 2),
    kind(What::ManagementCall(Manner::IsSlow), 2, 3),
    kind(What::ManagementOutage(Manner::IsAway), 1, 2),
    kind(What::ManagementOutage(Manner::Refuses), 1, 2),
    kind(What::ManagementOutage(Manner::IsSlow), 1, 2),
    kind(What::WatchesDrop, 2, 4),
];

impl Kind {
    /// How often it must have happened in a run of so many operations: a short one promises nothing.
    pub fn least(&self, operations: usize) -> usize {
        self.least * (operations / LONG)
    }

    /// How often it should have happened by the time that so many of them are accepted: all of it a little before the end, so that what
    /// cannot be done at once still can.
    pub fn due(&self, accepted: usize, operations: usize) -> usize {
        let least = self.least(operations);
        (least * accepted * 10).checked_div(operations * 9).unwrap_or_default().min(least)
    }
}

impl What {
    /// In words, for the table.
    pub fn words(self) -> String {
        match self {
            Self::KillConductor => "conductor: kill -9".to_owned(),
            Self::StopConductor => "conductor: SIGTERM".to_owned(),
            Self::FreezeConductor => "conductor: SIGSTOP for longer than a lease".to_owned(),
            Self::FreezeConductorShortly => "conductor: SIGSTOP for less than a lease".to_owned(),
            Self::KillApi => "API: kill -9".to_owned(),
            Self::StopApi => "API: SIGTERM".to_owned(),
            Self::KillBroker => "RabbitMQ: kill -9".to_owned(),
            Self::StopBroker => "RabbitMQ: clean stop".to_owned(),
            Self::KillDatabase => "MariaDB: kill -9".to_owned(),
            Self::StopDatabase => "MariaDB: clean stop".to_owned(),
            Self::CloudCall(manner) => format!("cloud: one call {}", manner.words()),
            Self::CloudOutage(manner) => format!("cloud: for seconds every call to a service {}", manner.words()),
            Self::StackFails => "cloud: a stack fails".to_owned(),
            Self::ManagementCall(manner) => format!("management cluster: one call {}", manner.words()),
            Self::ManagementOutage(manner) => format!("management cluster: for seconds every call {}", manner.words()),
            Self::WatchesDrop => "management cluster: all watches are cut off".to_owned(),
        }
    }

    /// Whether it happens on the management cluster, which not every run has.
    pub fn is_of_management(self) -> bool {
        matches!(self, Self::ManagementCall(_) | Self::ManagementOutage(_) | Self::WatchesDrop)
    }

    /// Whether it waits for a call that meets it, and counts from then on.
    pub fn waits_for_a_call(self) -> bool {
        matches!(self, Self::CloudCall(_) | Self::ManagementCall(_))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_kind_is_in_the_table_once_is_drawn_and_must_happen_in_a_long_run() {
        let whats: BTreeSet<What> = KINDS.iter().map(|kind| kind.what).collect();
        assert_eq!(whats.len(), KINDS.len());
        let words: BTreeSet<String> = KINDS.iter().map(|kind| kind.what.words()).collect();
        assert_eq!(words.len(), KINDS.len());
        assert!(KINDS.iter().all(|kind| kind.often > 0 && kind.least(LONG) > 0 && kind.least(LONG - 1) == 0));
    }

    #[test]
    fn what_must_happen_is_due_before_the_end() {
        for kind in &KINDS {
            assert_eq!((kind.due(0, LONG), kind.due(LONG * 9 / 10, LONG), kind.due(LONG, LONG)), (0, kind.least, kind.least));
            assert_eq!((kind.due(70, 70), kind.due(0, 0)), (0, 0));
        }
    }
}
