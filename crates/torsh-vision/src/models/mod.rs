//! The models of torchvision, under its names.

pub mod blocks;
