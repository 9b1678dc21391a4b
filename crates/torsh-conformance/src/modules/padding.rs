//! Padding.

use torsh_nn::*;
use torsh_tensor::{Result, Sizes};

use super::{Args, Built, one};

macro_rules! pad {
    ($layer:ident $n:literal, $a:expr) => {
        one($layer::new($a.at::<Sizes<$n>>(0, "padding")?))
    };
}

macro_rules! constant {
    ($layer:ident $n:literal, $a:expr) => {
        one($layer::new(
            $a.at::<Sizes<$n>>(0, "padding")?,
            $a.at::<f64>(1, "value")?,
        ))
    };
}

pub(super) fn build(name: &str, a: &Args) -> Result<Option<Built>> {
    Ok(Some(match name {
        "ReflectionPad1d" => pad!(ReflectionPad1d 2, a),
        "ReflectionPad2d" => pad!(ReflectionPad2d 4, a),
        "ReflectionPad3d" => pad!(ReflectionPad3d 6, a),
        "ReplicationPad1d" => pad!(ReplicationPad1d 2, a),
        "ReplicationPad2d" => pad!(ReplicationPad2d 4, a),
        "ReplicationPad3d" => pad!(ReplicationPad3d 6, a),
        "CircularPad1d" => pad!(CircularPad1d 2, a),
        "CircularPad2d" => pad!(CircularPad2d 4, a),
        "CircularPad3d" => pad!(CircularPad3d 6, a),
        "ZeroPad1d" => pad!(ZeroPad1d 2, a),
        "ZeroPad2d" => pad!(ZeroPad2d 4, a),
        "ZeroPad3d" => pad!(ZeroPad3d 6, a),
        "ConstantPad1d" => constant!(ConstantPad1d 2, a),
        "ConstantPad2d" => constant!(ConstantPad2d 4, a),
        "ConstantPad3d" => constant!(ConstantPad3d 6, a),
        _ => return Ok(None),
    }))
}
