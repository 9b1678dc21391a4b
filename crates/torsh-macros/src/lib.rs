//! Derive macros of ToRSh
