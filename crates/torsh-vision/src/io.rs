//! Tensors to and from image files, as `torchvision.io`.
