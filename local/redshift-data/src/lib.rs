//! The Redshift Data API on PostgreSQL, for the local cloud.
