/// Two levels of features together.
#[derive(Module)]
struct LRASPPHead {
    cbr: Sequential,
    scale: Sequential,
    low_classifier: Conv2d,
    high_classifier: Conv2d,
    hooks: Hooks,
}

impl LRASPPHead {
    fn new(low: usize, high: usize, num_classes: usize, inner: usize) -> Result<LRASPPHead> {
        let pointwise = || Conv2d::builder(high, inner, 1).bias(false).build();
        Ok(LRASPPHead {
            cbr: Sequential::new()
                .add(pointwise()?)
                .add(BatchNorm2d::new(inner)?)
                .add(ReLU::new()),
            scale: Sequential::new()
                .add(AdaptiveAvgPool2d::new(1)?)
                .add(pointwise()?)
                .add(Sigmoid::new()),
            low_classifier: Conv2d::new(low, num_classes, 1, 1, 0)?,
            high_classifier: Conv2d::new(inner, num_classes, 1, 1, 0)?,
            hooks: Hooks::new(),
        })
    }

    fn forward_with(&self, low: &Tensor, high: &Tensor) -> Result<Tensor> {
        let x = self.cbr.forward(high)?.mul(&self.scale.forward(high)?)?;
        let x = resized_as(&x, low)?;
        let low = self.low_classifier.forward(low)?;
        low.add(&self.high_classifier.forward(&x)?)
    }
}
