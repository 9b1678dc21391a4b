//! The transforms of torchvision, under its names.
