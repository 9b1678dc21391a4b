//! The ops of torchvision, under its names.
