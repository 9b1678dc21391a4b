//! Pointwise ops as data: scalar definition and derivative, in one row each.
//!
//! [`for_each_unary!`](crate::for_each_unary), [`for_each_binary!`](crate::for_each_binary) and
//! [`for_each_parametric!`](crate::for_each_parametric) hand their rows to a macro of the caller:
//! the CPU backend makes loops of the scalar expressions, and the tensor crate makes the op records,
//! methods and by-name entries. Adding a pointwise op is adding a row.
//!
//! # A row
//!
//! ```text
//! /// Sine of each element, in radians.                          documentation of record and method
//! sin "sin" Sin(x) "(Tensor input)" -> float {
//!     float |x| x.sin::<A>();                                    real floating-point types
//!     complex |x| x.sin();                                       complex types
//!     grad [x] |c| c.g().mul(c.x()?.cos()?.conj()?);             one per tensor operand
//!     zero any;                                                  it gives 0 for 0
//!     samples (-3.0, 3.0);                                       where gradcheck draws each operand
//!     example [0.0, 1.0] ~ [0.0, 0.841471];                      the doc test of method and function
//! }
//! ```
//!
//! Head: method name, PyTorch's name, kernel key, operands and, after a semicolon, the names of the
//! op's numbers (`LeakyRelu(x; negative_slope)`), PyTorch's schema for calls by name (`""` where a
//! hand-written record offers the op), and the rule for dtypes:
//!
//! | rule | computes in | result |
//! |---|---|---|
//! | `promote` | the promoted dtype | the same |
//! | `number` | the promoted dtype; bool operands are refused | the same |
//! | `float` | the promoted dtype; integers and bool become the default dtype | the same |
//! | `bool` | the promoted dtype | bool |
//! | `equality` | the promoted dtype, `complex64` for `complex32` | bool |
//! | `real` | the promoted dtype | its real type for complex, else the same |
//!
//! Sections, each optional, in this order: `float` (f32 and f64; the half types compute in f32),
//! `int` (u8 to i64), `bool`, `complex`. A dtype whose section is missing is refused by name.
//! Expressions are generic: `A` is the instruction set, `T` the element type (`T::c(0.5)` makes a
//! constant), and the names after the semicolon bind the numbers, converted to `T`. The struct
//! [`numbers`]`::LeakyRelu` holds them in a call.
//!
//! `grad [saved..] |c| ..`: the gradient of one operand from `c.g()`, the result's gradient; what
//! it reads of `c.x()?`, `c.y()?`, `c.z()?` (operands) and `c.out()?` (result) must be listed, and
//! only that is kept alive; `c.number("negative_slope")?` is a number, as a `Scalar`. Broadcasting and
//! promotion are undone by the engine. `define |c| ..`, after them: the op in other ops, for devices that
//! lack its kernel; it reads `c.x()?`, `c.y()?`, `c.z()?`, `c.operand(1)?` (tensor or number) and
//! `c.number(..)?`. An op whose rows have no `grad` is not differentiable, and says so when asked.
//!
//! `zero any`, behind `define`: the op of one operand gives 0 for 0, so that it runs on the stored values of a sparse one;
//! `linear` or `flat` in place of `any` says more, as [`KeepsZeros`] has it.
//!
//! `example [0.0, 1.0] ~ [0.0, 0.841471];`, the last section: operands and result of the doc test that
//! [`row_example!`](crate::row_example) makes for the op's method and function. `~` compares within the tolerance of
//! `allclose`, `=>` exactly. A second operand follows a comma.

mod activation;
mod binary;
mod comparison;
mod docs;
mod loss;
mod parametric;
mod special;
mod unary;

use crate::kernel::KernelKey;

/// What is known of an op of one operand that gives 0 for 0.
///
/// ```
/// use torsh_core::pointwise::KeepsZeros;
/// // The negative of a sum is the sum of the negatives; its square root is not the sum of roots.
/// assert_ne!(KeepsZeros::Linear, KeepsZeros::Any);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KeepsZeros {
    /// The result of a sum is the sum of the results: an element of a sparse operand may be stored in several terms.
    Linear,
    /// It needs the whole value of an element.
    Any,
    /// As `Any`, and its derivative is 0: the gradient stores nothing.
    Flat,
}

macro_rules! kernel_enum {
    // Accumulates the keys of all three lists, then writes the enum.
    (@unary [$($structural:tt)*] $($(#[doc = $doc:literal])+ $method:ident $name:literal $kernel:ident ( $($arg:ident),+ ) $schema:literal -> $rule:ident { $($body:tt)* })*) => {
        crate::for_each_binary! { kernel_enum @binary [$($structural)*] [$($kernel)*] }
    };
    (@binary [$($structural:tt)*] [$($seen:ident)*] $($(#[doc = $doc:literal])+ $method:ident $name:literal $kernel:ident ( $($arg:ident),+ ) $schema:literal -> $rule:ident { $($body:tt)* })*) => {
        crate::for_each_parametric! { kernel_enum @parametric [$($structural)*] [$($seen)* $($kernel)*] }
    };
    (@parametric [$($structural:ident)*] [$($seen:ident)*] $($(#[doc = $doc:literal])+ $method:ident $name:literal $kernel:ident ( $($arg:ident),+ $(; $($number:ident),+)? ) $schema:literal -> $rule:ident { $($body:tt)* })*) => {
        /// The key of a kernel in a backend's table.
        ///
        /// The pointwise keys come from the rows of [`crate::pointwise`]; the others are the
        /// structural kernels, each documented where the CPU backend defines it, and the keys of other crates.
        ///
        /// ```
        /// use torsh_core::Kernel;
        ///
        /// assert_eq!(format!("{:?}", Kernel::Sin), "Sin");
        /// assert!(Kernel::Sin.is_pointwise() && !Kernel::MatMul.is_pointwise());
        /// assert_eq!(Kernel::ALL[Kernel::MatMul.index()], Kernel::MatMul);
        /// ```
        #[allow(missing_docs)]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        pub enum Kernel {
            $($seen,)* $($kernel,)*
            $($structural,)*
            /// A key that a crate above this one declares.
            Extension(&'static KernelKey),
        }

        impl Kernel {
            /// Every key of this crate.
            pub const ALL: &'static [Kernel] = &[$(Kernel::$seen,)* $(Kernel::$kernel,)* $(Kernel::$structural,)*];
            /// How many of them are pointwise; these come first.
            pub const POINTWISE: usize = [$(Kernel::$seen,)* $(Kernel::$kernel,)*].len();

            /// Returns the place in [`Kernel::ALL`]; [`Kernel::COUNT`] for keys of other crates.
            ///
            /// ```
            /// use torsh_core::Kernel;
            /// assert_eq!(Kernel::ALL[Kernel::Softmax.index()], Kernel::Softmax);
            /// ```
            #[inline(always)]
            pub const fn index(self) -> usize {
                #[repr(usize)]
                enum Place { $($seen,)* $($kernel,)* $($structural,)* }
                match self {
                    $(Kernel::$seen => Place::$seen as usize,)*
                    $(Kernel::$kernel => Place::$kernel as usize,)*
                    $(Kernel::$structural => Place::$structural as usize,)*
                    Kernel::Extension(_) => Kernel::COUNT,
                }
            }

            /// Returns the key's name.
            ///
            /// ```
            /// use torsh_core::Kernel;
            /// assert_eq!(Kernel::LeakyRelu.name(), "LeakyRelu");
            /// ```
            pub const fn name(self) -> &'static str {
                match self {
                    $(Kernel::$seen => stringify!($seen),)*
                    $(Kernel::$kernel => stringify!($kernel),)*
                    $(Kernel::$structural => stringify!($structural),)*
                    Kernel::Extension(key) => key.name(),
                }
            }
        }
    };
}

impl Kernel {
    /// How many keys this crate has.
    pub const COUNT: usize = Kernel::ALL.len();

    /// Whether the key is one of the rows of this module.
    ///
    /// ```
    /// use torsh_core::Kernel;
    /// assert!(Kernel::Add.is_pointwise() && !Kernel::Sum.is_pointwise());
    /// ```
    pub const fn is_pointwise(self) -> bool {
        self.index() < Kernel::POINTWISE
    }
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

crate::for_each_unary! { kernel_enum @unary [
    Copy Fill Where
    Sum Prod Mean Max Min MaxDim MinDim Any All ArgMax ArgMin Var Norm LogSumExp CountNonzero NanSum
    CumSum CumProd Median Softmax LogSoftmax SoftmaxBackward LogSoftmaxBackward
    IndexSelect IndexAdd IndexCopy IndexFill Gather Scatter ScatterAdd ScatterReduce
    IndexGet IndexPut MaskedSelect MaskedScatter MaskedScatterBackward Nonzero Take
    StridedScatter StridedAccumulate DiagEmbed
    Sort Topk Flip Roll Triangle Cat Arange Linspace Eye OneHot Isin RepeatInterleave
    MatMul
    Conv ConvTranspose ConvWeight ConvBatchNorm
    MaxPool AdaptiveMaxPool MaxPoolBackward AvgPool AvgPoolBackward AdaptiveAvgPool AdaptiveAvgPoolBackward
    Im2Col Col2Im Resample ResampleBackward
    BatchNorm BatchNormBackward NllLoss NllLossBackward CrossEntropy CrossEntropyBackward Embedding EmbeddingBackward
    Uniform Normal Bernoulli RandInt RandPerm Dropout
    KthValue Mode CumMax CumMin LogCumSumExp
    Exponential Cauchy LogNormal Geometric Multinomial
    IndexReduce Put MaskedCount MaskedFill RepeatCount Bincount SearchSorted Equal
    SgdStep AdamStep NAdamStep RAdamStep AdamaxStep AdagradStep AdadeltaStep RMSpropStep RpropStep AsgdStep
    SparseAdamStep MuonMomentum AdafactorUpdate UnscaleGradients
    Pad
    Cross RowNorm RowNormBackward EmbeddingBag EmbeddingBagBackward
    Rnn RnnBackward
    CtcLoss CtcLossBackward
    Attention AttentionBackward
    Assert
    AmpUpdateScale
    Fft
] }

/// The numbers of the rows that have some: a struct for each, with its kernel's name.
pub mod numbers {
    use crate::Scalar;
    use crate::attrs::{
        Attributes, FieldType, Fields, MAX_NUMBERS, Reader, SavedAttributes, read_field,
    };

    /// The numbers of a pointwise row, as attributes of its calls.
    pub trait Numbers: Attributes {
        /// Their names, in the order of the row.
        const NAMES: &'static [&'static str];
        /// The struct of numbers in the order of the row, as a schema binds them.
        fn bound(numbers: &[Scalar]) -> Self;
    }

    macro_rules! structs {
        ($(
            $(#[doc = $doc:literal])+
            $method:ident $name:literal $kernel:ident ( $($arg:ident),+ $(; $($number:ident),+)? ) $schema:literal -> $rule:ident { $($body:tt)* }
        )*) => {
            $($( structs! { @one $kernel $name $($number)+ } )?)*

            /// How these structs are made of named fields.
            pub const READERS: &[Reader] = &[$($( structs! { @reader $kernel $($number)+ }, )?)*];
        };
        (@one $kernel:ident $name:literal $($number:ident)+) => {
            #[doc = concat!("The numbers of `", $name, "`.")]
            #[derive(Clone, Copy, Debug)]
            #[allow(missing_docs)]
            pub struct $kernel { $(pub $number: Scalar),+ }

            impl Attributes for $kernel {
                fn name(&self) -> &'static str {
                    stringify!($kernel)
                }
                fn fields(&self) -> Fields<'_> {
                    Fields::from_iter([$((stringify!($number), self.$number.field())),+])
                }
                #[inline]
                fn save(&self) -> SavedAttributes {
                    SavedAttributes::new(*self)
                }
                #[inline]
                fn numbers(&self, to: &mut [Scalar; MAX_NUMBERS]) -> usize {
                    let all = [$(self.$number),+];
                    to[..all.len()].copy_from_slice(&all);
                    all.len()
                }
            }

            impl Numbers for $kernel {
                const NAMES: &'static [&'static str] = &[$(stringify!($number)),+];
                fn bound(numbers: &[Scalar]) -> $kernel {
                    let mut all = numbers.iter().copied();
                    $kernel { $($number: all.next().unwrap_or(Scalar::Int(0))),+ }
                }
            }
        };
        (@reader $kernel:ident $($number:ident)+) => {
            Reader {
                name: stringify!($kernel),
                read: |fields| Ok(SavedAttributes::new($kernel {
                    $($number: read_field(stringify!($kernel), stringify!($number), fields)?),+
                })),
            }
        };
    }
    crate::for_each_parametric! { structs }
}
