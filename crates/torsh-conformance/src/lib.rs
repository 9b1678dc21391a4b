//! Runs golden cases computed by PyTorch against ToRSh
