//! A PyTorch-compatible deep learning framework
