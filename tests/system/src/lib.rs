//! System tests on the local cloud.
