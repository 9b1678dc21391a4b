//! The values inside a model, as `torchvision.models.feature_extraction`.
