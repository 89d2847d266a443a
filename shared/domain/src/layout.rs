//! How the keys below a root tell the partition.

/// A dataset's layout: the segments of the path between the root and the object's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// As written, such as `dt={dt}/hour={hour}/`.
    pub text: String,
}
