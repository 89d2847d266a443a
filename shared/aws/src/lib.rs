//! Adapts: the ports on the AWS SDK.
