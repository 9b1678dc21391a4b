//! Data types, layouts, storage, errors, the backend table, the thread pool and random generators of ToRSh

pub mod alloc;
pub mod pool;
