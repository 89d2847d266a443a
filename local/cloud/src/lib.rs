//! Starts and stops the local cloud: emulator, PostgreSQL, Redshift Data API, the deployed stack.
