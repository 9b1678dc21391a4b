//! Registers and discovers the backends of ToRSh
