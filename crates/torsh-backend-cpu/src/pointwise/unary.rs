//! The loops of the unary rows.

use torsh_core::Kernel;

use super::loops::*;
use crate::arch::{Arch, Level};
#[allow(unused_imports)]
use crate::scalar::*;

torsh_core::for_each_unary! { fill_rows }
