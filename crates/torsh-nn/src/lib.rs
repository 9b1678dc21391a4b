//! Layers of ToRSh, as torch.nn
