//! Grids of images, and drawings on them, as `torchvision.utils`.
