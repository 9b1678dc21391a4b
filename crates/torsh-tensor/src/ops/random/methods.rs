//! Random numbers as methods.

use super::*;
use crate::MultinomialOptions;

/// Methods that draw: `NAME` from the default generator, and `NAME_with` from the one that it takes last. A row has the
/// documentation of the first, both names, the arguments, the draw, and an example of the second; `@function` makes
/// functions of both.
macro_rules! draws {
    ($module:ident: $($(#[doc = $doc:literal])+ $(@ $mark:ident $torch:literal)? $name:ident $with:ident
        ($($(& $this:ident)? $($arg:ident: $ty:ty)?),*) |$generator:ident| $draw:expr, $example:literal;)*) => {
        #[torsh_tensor::functions($module)]
        impl Tensor {$(
            $(#[doc = $doc])+
            $(#[$mark])?
            #[torsh_tensor::names_caller(Self)]
            pub fn $name($($(& $this)? $($arg: $ty)?),*) -> Result<Tensor> {
                let $generator: Option<&Generator> = None;
                $draw
            }

            #[doc = concat!("[`Tensor::", stringify!($name), "`] from a generator", $($torch,)? ".")]
            #[doc = crate::options::example!($example)]
            $(#[$mark])?
            #[torsh_tensor::names_caller(Self)]
            pub fn $with($($(& $this)? $($arg: $ty)?,)* $generator: &Generator) -> Result<Tensor> {
                let $generator = Some($generator);
                $draw
            }
        )*}
    };
}
pub(crate) use draws;

draws! {
    drawn:
    /// Fills this tensor with numbers drawn uniformly from `from` to below `to`. Returns this
    /// tensor, of a floating-point or complex dtype. An error where `from` is above `to`.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![0.0, 0.0, 0.0];
    /// x.uniform_(2.0, 3.0)?;
    /// assert!(x.to_vec::<f32>()?.iter().all(|v| (2.0..3.0).contains(v)));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    uniform_ uniform_with_ (&self, from: f64, to: f64)
        |generator| self.fill_uniform(from, to, generator),
        "use torsh_core::Generator;\n\
            # use torsh_tensor::tensor;\n\
            let draw = || tensor![0.0, 0.0].uniform_with_(0.0, 1.0, &Generator::new(7));\n\
            assert_eq!(draw()?, draw()?);";
    /// Fills this tensor with normal numbers; complex ones have half of the variance in each part.
    /// Returns this tensor, of a floating-point or complex dtype. A negative deviation is an error.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![0.0, 0.0].normal_(5.0, 0.0)?, tensor![5.0, 5.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    normal_ normal_with_ (&self, mean: f64, std: f64)
        |generator| self.fill_normal(mean, std, generator),
        "use torsh_core::Generator;\n\
            # use torsh_tensor::tensor;\n\
            let draw = || tensor![0.0, 0.0].normal_with_(0.0, 1.0, &Generator::new(7));\n\
            assert_eq!(draw()?, draw()?);";
    /// Fills this tensor with 1 of probability `p` and 0 else. Returns this tensor. A probability
    /// outside of [0, 1] and a complex dtype are errors.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![0.5, 0.5];
    /// assert_eq!(x.bernoulli_(1.0)?, tensor![1.0, 1.0]);
    /// assert_eq!(x.bernoulli_(0.0)?, tensor![0.0, 0.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    bernoulli_ bernoulli_with_ (&self, p: f64)
        |generator| self.fill_bernoulli(p, generator),
        "use torsh_core::Generator;\n\
            # use torsh_tensor::tensor;\n\
            let x = tensor![0.0];\n\
            assert_eq!(x.bernoulli_with_(1.0, &Generator::new(7))?, tensor![1.0]);";
    /// Numbers drawn uniformly from 0 to below 1 (`torch.rand`). Floating-point and complex dtypes.
    ///
    /// ```
    /// # use torsh_tensor::{DType, Device, Tensor};
    /// let x = Tensor::rand([3], DType::F64, Device::Cpu)?;
    /// assert!(x.to_vec::<f64>()?.iter().all(|v| (0.0..1.0).contains(v)));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    rand rand_with (shape: impl IntoShape, dtype: DType, device: Device)
        |generator| Tensor::empty(shape, dtype, device)?.fill_uniform(0.0, 1.0, generator).map_err(|e| e.renamed("rand")),
        "use torsh_core::Generator;\n\
            # use torsh_tensor::{DType, Device, Tensor};\n\
            let draw = || Tensor::rand_with([3], DType::F32, Device::Cpu, &Generator::new(7));\n\
            assert_eq!(draw()?, draw()?);";
    /// Normal numbers of mean 0 and deviation 1 (`torch.randn`). Floating-point and complex dtypes.
    ///
    /// ```
    /// use torsh_core::random::manual_seed;
    /// # use torsh_tensor::{DType, Device, Tensor, tensor};
    /// manual_seed(0);
    /// let x = Tensor::randn([2], DType::F32, Device::Cpu)?;
    /// // What PyTorch draws.
    /// assert!(x.allclose(&tensor![1.540996, -0.293429])?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    randn randn_with (shape: impl IntoShape, dtype: DType, device: Device)
        |generator| Tensor::empty(shape, dtype, device)?.fill_normal(0.0, 1.0, generator).map_err(|e| e.renamed("randn")),
        "use torsh_core::Generator;\n\
            # use torsh_tensor::{DType, Device, Tensor, tensor};\n\
            let x = Tensor::randn_with([2], DType::F32, Device::Cpu, &Generator::new(0))?;\n\
            assert!(x.allclose(&tensor![1.540996, -0.293429])?);";
    /// Whole numbers from `low` to below `high` (`torch.randint`). An empty range, bounds that the
    /// dtype does not have, and a complex dtype are errors.
    ///
    /// ```
    /// # use torsh_tensor::{DType, Device, Tensor};
    /// let x = Tensor::randint(5, 7, [3], DType::I64, Device::Cpu)?;
    /// assert!(x.to_vec::<i64>()?.iter().all(|v| *v == 5 || *v == 6));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    randint randint_with (low: i64, high: i64, shape: impl IntoShape, dtype: DType, device: Device)
        |generator| {
            let t = Tensor::empty(shape, dtype, device)?;
            t.fill_integers(Some(low), Some(high), generator)
                .map_err(|e| e.renamed("randint"))
        },
        "use torsh_core::Generator;\n\
            # use torsh_tensor::{DType, Device, Tensor};\n\
            let draw = || Tensor::randint_with(0, 100, [3], DType::I64, Device::Cpu, &Generator::new(7));\n\
            assert_eq!(draw()?, draw()?);";
    /// A permutation of the integers from 0 to below `n` (`torch.randperm`). A negative `n`, and
    /// one too large for the dtype, are errors.
    ///
    /// ```
    /// # use torsh_tensor::{DType, Device, Tensor, tensor};
    /// let x = Tensor::randperm(4, DType::I64, Device::Cpu)?;
    /// assert_eq!(x.sort()?.0, tensor![0, 1, 2, 3]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    randperm randperm_with (n: i64, dtype: DType, device: Device)
        |generator| permutation(n, dtype, device, generator),
        "use torsh_core::Generator;\n\
            # use torsh_tensor::{DType, Device, Tensor};\n\
            let draw = || Tensor::randperm_with(10, DType::I64, Device::Cpu, &Generator::new(7));\n\
            assert_eq!(draw()?, draw()?);";
}

#[torsh_tensor::functions]
impl Tensor {
    /// Fills this tensor with exponential numbers of rate `lambd`. Returns this tensor. A rate that
    /// is not positive and a complex dtype are errors.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![0.0, 0.0, 0.0];
    /// x.exponential_(1.0)?;
    /// assert!(x.to_vec::<f32>()?.iter().all(|v| *v > 0.0));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn exponential_(&self, lambd: f64) -> Result<Tensor> {
        self.fill_exponential(lambd, None)
    }

    /// Fills this tensor with the number of trials up to the first success of probability `p`.
    /// Returns this tensor. A probability outside of (0, 1) and a complex dtype are errors.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![0.0, 0.0];
    /// // Every trial succeeds.
    /// x.geometric_(1.0 - 1e-12)?;
    /// assert_eq!(x, tensor![1.0, 1.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn geometric_(&self, p: f64) -> Result<Tensor> {
        self.fill_geometric(p, None)
    }

    /// Fills this tensor with Cauchy numbers. Returns this tensor. A `sigma` that is not positive
    /// and a complex dtype are errors.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert!(tensor![0.0, 0.0].cauchy_(0.0, 1.0)?.is_finite()?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn cauchy_(&self, median: f64, sigma: f64) -> Result<Tensor> {
        self.fill_cauchy(median, sigma, None)
    }

    /// Fills this tensor with exponentials of normal numbers. Returns this tensor. A deviation that
    /// is not positive and a complex dtype are errors.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![0.0, 0.0];
    /// x.log_normal_(0.0, 1.0)?;
    /// assert!(x.to_vec::<f32>()?.iter().all(|v| *v > 0.0));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn log_normal_(&self, mean: f64, std: f64) -> Result<Tensor> {
        self.fill_log_normal(mean, std, None)
    }

    /// Fills this tensor with whole numbers from 0 to the largest of its dtype (of a floating-point
    /// one, to the largest below which every whole number has its place). Returns this tensor. A
    /// complex dtype is an error.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![0, 0].random_()?;
    /// assert!(x.min()?.item::<i64>()? >= 0);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn random_(&self) -> Result<Tensor> {
        self.fill_integers(None, None, None)
    }

    /// Fills this tensor with whole numbers from `from` to below `to`. Returns this tensor. An
    /// empty range, bounds that the dtype does not have, and a complex dtype are errors.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![0, 0, 0];
    /// x.random_range_(5, 7)?;
    /// assert!(x.to_vec::<i64>()?.iter().all(|v| *v == 5 || *v == 6));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn random_range_(&self, from: i64, to: i64) -> Result<Tensor> {
        self.fill_integers(Some(from), Some(to), None)
    }

    /// Ones drawn with the probabilities in this tensor, else zeros (`torch.bernoulli`).
    ///
    /// Shape and dtype stay; PyTorch's own draws after the same `manual_seed`. An error for integers,
    /// and for probabilities outside [0, 1].
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1.0, 0.0].bernoulli()?, tensor![1.0, 0.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn bernoulli(&self) -> Result<Tensor> {
        bernoulli(self, None)
    }

    /// Numbers drawn uniformly from 0 to below 1, in this tensor's shape, dtype and memory order.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[5.0, 6.0]].rand_like()?;
    /// assert_eq!(x.dims(), [1, 2]);
    /// assert!(x.to_vec::<f32>()?.iter().all(|v| (0.0..1.0).contains(v)));
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn rand_like(&self) -> Result<Tensor> {
        self.empty_as(self.dtype(), self.device())?
            .fill_uniform(0.0, 1.0, None)
            .map_err(|e| e.renamed("rand_like"))
    }

    /// Normal numbers in this tensor's shape, dtype and memory order.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![[5.0, 6.0]].randn_like()?;
    /// assert_eq!(x.dims(), [1, 2]);
    /// assert!(x.is_finite()?);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn randn_like(&self) -> Result<Tensor> {
        self.empty_as(self.dtype(), self.device())?
            .fill_normal(0.0, 1.0, None)
            .map_err(|e| e.renamed("randn_like"))
    }

    /// Whole numbers from `low` to below `high` in this tensor's shape, dtype and memory order.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![5.0, 6.0].randint_like(1, 2)?;
    /// assert_eq!(x, tensor![1.0, 1.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn randint_like(&self, low: i64, high: i64) -> Result<Tensor> {
        let t = self.empty_as(self.dtype(), self.device())?;
        t.fill_integers(Some(low), Some(high), None)
            .map_err(|e| e.renamed("randint_like"))
    }

    /// Normal numbers whose means are this tensor's elements (`torch.normal`), of one deviation or
    /// one each.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// assert_eq!(tensor![1.0, 100.0].normal(0.0)?, tensor![1.0, 100.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn normal<'a>(&self, std: impl Into<crate::Operand<'a>>) -> Result<Tensor> {
        normal(self, std.into(), None)
    }

    /// Different indices drawn with the weights in the rows of this tensor (int64;
    /// `torch.multinomial`).
    ///
    /// `[n]` gives `[num_samples]`, `[m, n]` gives `[m, num_samples]`. An error for integers, for
    /// negative, infinite or no weights, and for more draws than weights.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// // Only two of the categories have a weight.
    /// let drawn = tensor![0.0, 1.0, 3.0].multinomial(2)?;
    /// assert_eq!(drawn.sort()?.0, tensor![1, 2]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[track_caller]
    pub fn multinomial(&self, num_samples: i64) -> Result<Tensor> {
        self.multinomial_with(num_samples, MultinomialOptions::default())
    }

    /// [`Tensor::multinomial`] with replacement, or from another generator.
    ///
    /// ```
    /// use torsh_tensor::{MultinomialOptions, tensor};
    /// let options = MultinomialOptions::new().replacement(true);
    /// assert_eq!(tensor![0.0, 1.0].multinomial_with(3, options)?, tensor![1, 1, 1]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function]
    #[torsh_tensor::names_caller]
    pub fn multinomial_with(
        &self,
        num_samples: i64,
        options: MultinomialOptions,
    ) -> Result<Tensor> {
        self.multinomial_from(num_samples, options.replacement, options.generator.as_ref())
    }

    #[track_caller]
    pub(super) fn multinomial_from(
        &self,
        samples: i64,
        replacement: bool,
        generator: Option<&Generator>,
    ) -> Result<Tensor> {
        let invalid =
            |message: String| self.named("multinomial", Err(TorshError::invalid("", message)));
        if !matches!(self.ndim(), 1 | 2) {
            return invalid(format!("prob_dist must be 1 or 2 dim, got {}", self.ndim()));
        }
        if !self.dtype().is_floating_point() {
            return invalid(format!(
                "only supports floating-point dtypes for input, got {}",
                self.dtype()
            ));
        }
        let categories = self.dims()[self.ndim() - 1] as i64;
        if samples <= 0 {
            return invalid(format!(
                "cannot sample n_sample <= 0 samples, got {samples}"
            ));
        }
        if categories == 0 {
            return invalid("cannot sample from no categories".to_string());
        }
        if !replacement && samples > categories {
            return invalid(format!(
                "cannot sample n_sample > prob_dist.size(-1) samples without replacement: {samples} of {categories}"
            ));
        }
        let weights = self.detach();
        if replacement && samples > 1 {
            let rows = weights.reshape([-1, categories])?;
            let attrs = attrs::Multinomial {
                num_samples: samples as usize,
                generator: source(self.device(), generator)?,
            };
            let drawn = call(&MULTINOMIAL, &[Arg::T(&rows)], &attrs)?;
            let Some(drawn) = drawn.into_iter().next() else {
                return invalid("the kernel gave no result".to_string());
            };
            return if self.ndim() == 1 {
                drawn.squeeze(0)
            } else {
                Ok(drawn)
            };
        }
        if weights.numel() > 0 {
            let site = CallSite::here("multinomial");
            let good = weights.ge(0.0)?.logical_and(&weights.lt(f64::INFINITY)?)?;
            let some = weights.sum_dim(-1, false)?.ne(0.0)?;
            check(&good, site, || {
                Assert::value("probability tensor contains either `inf`, `nan` or element < 0")
            })
            .and_then(|()| {
                check(&some, site, || {
                    Assert::value("invalid multinomial distribution (sum of probabilities <= 0)")
                })
            })
            .map_err(|e| e.renamed("multinomial"))?;
        }
        // The largest of weight / exponential are a draw without replacement.
        let q = weights
            .empty_as(weights.dtype(), weights.device())?
            .fill_exponential(1.0, generator)?;
        let q = weights.div(&q)?;
        if samples == 1 {
            q.argmax_dim(-1, true)
        } else {
            Ok(q.topk(samples)?.1)
        }
    }

    /// Sets each element to 0 with probability `p` and scales the others by `1 / (1 - p)`; gives the
    /// tensor itself unless `training` (`torch.nn.functional.dropout`).
    ///
    /// Shape and dtype stay. An error for `p` outside [0, 1], and, in training, for integers.
    ///
    /// ```
    /// # use torsh_tensor::{DType, Device, Tensor};
    /// let x = Tensor::ones([100], DType::F32, Device::Cpu)?;
    /// let y = x.dropout(0.5, true)?.to_vec::<f32>()?;
    /// assert!(y.iter().all(|v| *v == 0.0 || *v == 2.0));
    /// assert_eq!(x.dropout(0.5, false)?, x);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[function(operand)]
    #[torsh_tensor::names_caller]
    pub fn dropout(&self, p: f64, training: bool) -> Result<Tensor> {
        if !(0.0..=1.0).contains(&p) {
            let message = format!("dropout probability has to be between 0 and 1, but got {p}");
            return self.named(DROPOUT.name, Err(TorshError::invalid("", message)));
        }
        if p == 0.0 || !training || self.numel() == 0 {
            return Ok(self.clone());
        }
        if p == 1.0 {
            return self.mul(&Tensor::zeros((), self.dtype(), self.device())?);
        }
        let attrs = attrs::Dropout {
            p,
            generator: source(self.device(), None)?,
        };
        let results = call(&DROPOUT, &[Arg::T(self)], &attrs)?;
        results
            .into_iter()
            .next()
            .ok_or_else(|| TorshError::invalid(DROPOUT.name, "the kernel gave no result"))
    }

    /// [`Tensor::dropout`] in place.
    ///
    /// ```
    /// # use torsh_tensor::tensor;
    /// let x = tensor![1.0, 1.0];
    /// x.dropout_(1.0, true)?;
    /// assert_eq!(x, tensor![0.0, 0.0]);
    /// # Ok::<(), torsh_tensor::TorshError>(())
    /// ```
    #[torsh_tensor::names_caller]
    pub fn dropout_(&self, p: f64, training: bool) -> Result<Tensor> {
        let dropped = self.dropout(p, training)?;
        if !dropped.is_same(self) {
            crate::inplace::assign(self, &dropped)?;
        }
        Ok(self.clone())
    }
}
