//! Datasets and data loaders of ToRSh, as torch.utils.data
