//! Models, operators, transforms and images, as torchvision.

pub mod feature_extraction;
pub mod io;
pub mod models;
pub mod ops;
pub mod transforms;
pub mod utils;

pub use io::load_image;
pub use transforms::preprocess_image;
