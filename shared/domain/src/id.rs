//! The names and numbers the protocol is told in: one newtype each, with one door that validates.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

/// Why a text is no valid name; the text stands in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidId {
    /// A dataset's name is an interface: it stands in queue groups, keys and metrics.
    #[error("dataset name {0:?} must be 1 to 63 characters of a-z, 0-9 and _, and begin with a letter")]
    Dataset(String),
    /// A partition's name is at most 1,000 bytes, since it is part of a DynamoDB sort key (1,024 bytes).
    #[error("partition name of {0} bytes must have 1 to 1000 bytes")]
    PartitionLength(usize),
    /// CloudFormation's rule for a stack's name.
    #[error("stack name {0:?} must be 1 to 128 letters, digits and -, and begin with a letter")]
    Stack(String),
}

/// The name of a dataset: 1 to 63 characters of `[a-z0-9_]`, the first a letter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DatasetName(String);

impl DatasetName {
    /// Takes a valid name; the error says what is wrong with it.
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidId> {
        let name = name.into();
        let valid = (1..=63).contains(&name.len())
            && name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if valid { Ok(Self(name)) } else { Err(InvalidId::Dataset(name)) }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The canonical name of a partition: its values in the layout's order, such as `dt=2026-11-01/hour=07`.
///
/// Two spellings of one partition in S3 (`month=1`, `month=01`) have one name. At most 1,000 bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PartitionName(String);

impl PartitionName {
    /// Takes a name of 1 to 1,000 bytes. Whether a dataset's layout yields it, only the layout can say.
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidId> {
        let name = name.into();
        if (1..=1000).contains(&name.len()) { Ok(Self(name)) } else { Err(InvalidId::PartitionLength(name.len())) }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The name of the CloudFormation stack that owns a target: 1 to 128 characters of `[A-Za-z0-9-]`, the first a letter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct StackName(String);

impl StackName {
    /// Takes a valid name; the error says what is wrong with it.
    pub fn new(name: impl Into<String>) -> Result<Self, InvalidId> {
        let name = name.into();
        let valid = (1..=128).contains(&name.len())
            && name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        if valid { Ok(Self(name)) } else { Err(InvalidId::Stack(name)) }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

macro_rules! text_id {
    ($($name:ident),*) => {$(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
        impl TryFrom<String> for $name {
            type Error = InvalidId;
            fn try_from(text: String) -> Result<Self, InvalidId> {
                Self::new(text)
            }
        }
        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0
            }
        }
    )*};
}
text_id!(DatasetName, PartitionName, StackName);

/// A partition of a dataset: the unit of rebuild.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PartitionId {
    /// Whose partition it is.
    pub dataset: DatasetName,
    /// Which one.
    pub partition: PartitionName,
}

impl fmt::Display for PartitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.dataset, self.partition)
    }
}

macro_rules! number {
    ($($(#[$doc:meta])* $name:ident),*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The one after it.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}
number!(
    /// How often a partition was marked; the first mark makes it 1.
    Generation,
    /// How often a partition was taken. A batch keeps the one it was born with, and that one goes into its SQL.
    Fence,
    /// How often what a target's partitions own was redefined.
    Epoch
);

/// The id of a batch, a UUIDv7: it names the staging table and orders batches by birth for a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct BatchId(pub Uuid);

impl fmt::Display for BatchId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

macro_rules! hash_id {
    ($($(#[$doc:meta])* $name:ident),*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// Hashes `parts`, each preceded by its length, so that no two lists of parts are one text.
            pub fn of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
                let mut sha = Sha256::new();
                for part in parts {
                    sha.update((part.len() as u64).to_be_bytes());
                    sha.update(part);
                }
                Self(hex::encode(sha.finalize()))
            }

            /// Takes a hash that was stored.
            pub fn stored(hash: impl Into<String>) -> Self {
                Self(hash.into())
            }

            /// The hash: 64 hexadecimal digits.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}
hash_id!(
    /// SHA-256 of an inventory and of that part of the definition that shapes rows.
    Digest,
    /// SHA-256 of a dataset's definition, normalised.
    DefinitionHash
);
