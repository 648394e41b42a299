//! How operations end: outcome codes, whose fault each is, and what the cloud said.

use serde::{Deserialize, Serialize};

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $word:literal, fault $fault:ident),+ $(,)?) => {
        /// Why an operation failed, in a word that programs can act on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum OutcomeCode { $($(#[$doc])* $name),+ }

        impl OutcomeCode {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// Every word.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The stored word.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word),+ }
            }

            /// The code of a stored word, also of one that older versions wrote.
            pub fn parse(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$name),)+ "invalid" => Some(Self::User), _ => None }
            }

            /// Who can do something about it.
            pub fn fault(self) -> Fault {
                match self { $(Self::$name => Fault::$fault),+ }
            }
        }
    };
}

codes!(
    /// The request cannot be carried out as it is (the user can mend it).
    User = "user", fault User,
    /// The cloud refused for lack of quota.
    Quota = "quota", fault Quota,
    /// The cloud failed, or refused for a reason of its own.
    Cloud = "cloud", fault Cloud,
    /// What was delegated to us no longer works (expired token, removed trust): somebody of the project has to ask again.
    Credentials = "credentials", fault User,
    /// The deadline of the operation, or of one of its steps, passed while the cloud was waited for.
    Timeout = "timeout", fault Cloud,
    /// Somebody asked for its end.
    Cancelled = "cancelled", fault User,
    /// A fault of this service.
    Internal = "internal", fault Service,
);

/// Who can do something about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The user who asked.
    User,
    /// Whoever grants the project's quota.
    Quota,
    /// The operator of the cloud.
    Cloud,
    /// The operator of this service.
    Service,
}

impl Fault {
    /// Every word.
    pub const WORDS: &'static [&'static str] = &["user", "quota", "cloud", "service"];

    /// The printed word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Quota => "quota",
            Self::Cloud => "cloud",
            Self::Service => "service",
        }
    }
}

/// A call to the cloud that failed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CloudFault {
    /// The service, by its project's name: `heat`.
    pub service: String,
    /// What it was asked for: `stack_create`.
    pub operation: String,
    /// The HTTP status of its answer; none without an answer.
    pub status: Option<u16>,
    /// Its own words.
    pub message: String,
    /// Its own id of the request.
    pub request_id: Option<String>,
}

impl CloudFault {
    /// Whether it is the same trouble again; request ids differ each time.
    pub fn is_like(&self, other: &Self) -> bool {
        (&self.service, &self.operation, self.status, &self.message) == (&other.service, &other.operation, other.status, &other.message)
    }
}

/// The last call to the cloud that failed for an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastCloudError {
    #[serde(flatten)]
    pub fault: CloudFault,
    /// How often in a row it was this one.
    pub count: u32,
    /// How often it was another than before: each of them is an event, up to a bound.
    pub changes: u32,
    /// When it was met last, in milliseconds since the epoch.
    pub at_ms: i64,
}

impl LastCloudError {
    /// Errors of one operation that become events at most; those after it are counted only.
    pub const MOST_EVENTS: u32 = 50;

    /// What is stored after another failure.
    pub fn after(before: Option<Self>, fault: CloudFault, at_ms: i64) -> Self {
        match before {
            Some(last) if last.fault.is_like(&fault) => Self { fault, count: last.count.saturating_add(1), at_ms, ..last },
            Some(last) => Self { fault, count: 1, changes: last.changes.saturating_add(1), at_ms },
            None => Self { fault, count: 1, changes: 1, at_ms },
        }
    }

    /// Whether it is to become an event.
    pub fn is_news(&self) -> bool {
        self.count == 1 && self.changes <= Self::MOST_EVENTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back_and_older_ones_are_understood() {
        for code in OutcomeCode::ALL {
            assert_eq!(OutcomeCode::parse(code.as_str()), Some(*code));
            assert!(Fault::WORDS.contains(&code.fault().as_str()));
        }
        assert_eq!(OutcomeCode::parse("invalid"), Some(OutcomeCode::User));
        assert_eq!(OutcomeCode::parse("bad luck"), None);
    }

    #[test]
    fn the_same_error_is_counted_and_only_another_one_is_news() {
        let fault = |message: &str, id: &str| CloudFault {
            service: "heat".into(),
            operation: "stack_show".into(),
            status: Some(500),
            message: message.into(),
            request_id: Some(id.into()),
        };
        let first = LastCloudError::after(None, fault("a", "1"), 1);
        let again = LastCloudError::after(Some(first.clone()), fault("a", "2"), 2);
        assert_eq!((again.count, again.is_news(), again.fault.request_id.as_deref()), (2, false, Some("2")));
        let mut last = LastCloudError::after(Some(again), fault("b", "3"), 3);
        assert!(first.is_news() && last.is_news());
        let mut news = 2;
        for turn in 0..1000 {
            last = LastCloudError::after(Some(last), fault(if turn % 2 == 0 { "a" } else { "b" }, "x"), 4);
            news += u32::from(last.is_news());
        }
        assert_eq!(news, LastCloudError::MOST_EVENTS);
        let text = serde_json::to_string(&last).expect("plain data");
        assert_eq!(serde_json::from_str::<LastCloudError>(&text).expect("reads back"), last);
    }
}
