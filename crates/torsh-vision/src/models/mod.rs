//! The models of torchvision, under its names.
