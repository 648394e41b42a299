//! Own id types, so that a cluster's id can never be passed where an operation's is wanted.
//!
//! They hold the text as it is stored: a row that another program wrote with an unusual uuid must still be listed and deleted.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Wraps text that is already such an id.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// A fresh random id (uuid version 4, lower case with hyphens).
            pub fn generate() -> Self {
                Self(crate::random::uuid().to_string())
            }

            /// The id as stored and as printed.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id!(
    /// A cluster's uuid.
    ClusterId
);
id!(
    /// A cluster template's uuid.
    TemplateId
);
id!(
    /// A nodegroup's uuid.
    NodegroupId
);
id!(
    /// An accepted lifecycle request's uuid.
    OperationId
);
id!(
    /// The uuid of a row of `x509keypair`; what `cluster.ca_cert_ref` and its siblings hold.
    KeypairId
);

/// A Keystone project's id.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ProjectId(pub String);

/// A Keystone user's id.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UserId(pub String);

impl fmt::Display for ProjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A uuid (version 8) that follows from words.
pub(crate) fn of_words(words: &[&str]) -> String {
    let digest = Sha256::digest(words.join("\n").as_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_uuids_that_follow_from_their_words() {
        let one = of_words(&["message", "a", "2", "success"]);
        assert_eq!(one, of_words(&["message", "a", "2", "success"]));
        assert_ne!(one, of_words(&["message", "a", "3", "success"]));
        assert_eq!(uuid::Uuid::parse_str(&one).expect("a uuid").get_version_num(), 8);
    }
}
