/// A convolution with gaps, a norm and a ReLU.
fn atrous(from: usize, to: usize, rate: i64) -> Result<Sequential> {
    Ok(Sequential::new()
        .add(
            Conv2d::builder(from, to, 3)
                .padding(rate)
                .dilation(rate)
                .bias(false)
                .build()?,
        )
        .add(BatchNorm2d::new(to)?)
        .add(ReLU::new()))
}

/// The mean over the image, in every pixel.
struct ASPPPooling {
    layers: Sequential,
}

sequence!(ASPPPooling);

impl Module for ASPPPooling {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        resized_as(&self.layers.forward(x)?, x)
    }
}

/// Atrous spatial pyramid pooling: convolutions of several reaches side by side.
#[derive(Module)]
struct ASPP {
    convs: ModuleList,
    project: Sequential,
    hooks: Hooks,
}

impl ASPP {
    fn new(from: usize, rates: &[usize], to: usize) -> Result<ASPP> {
        let pointwise = |from: usize| Conv2d::builder(from, to, 1).bias(false).build();
        let mut convs = ModuleList::new().add(
            Sequential::new()
                .add(pointwise(from)?)
                .add(BatchNorm2d::new(to)?)
                .add(ReLU::new()),
        );
        for &rate in rates {
            convs.push(atrous(from, to, rate as i64)?);
        }
        convs.push(ASPPPooling {
            layers: Sequential::new()
                .add(AdaptiveAvgPool2d::new(1)?)
                .add(pointwise(from)?)
                .add(BatchNorm2d::new(to)?)
                .add(ReLU::new()),
        });
        let project = Sequential::new()
            .add(pointwise(convs.len() * to)?)
            .add(BatchNorm2d::new(to)?)
            .add(ReLU::new())
            .add(Dropout::new(0.5)?);
        Ok(ASPP {
            convs,
            project,
            hooks: Hooks::new(),
        })
    }
}

impl Module for ASPP {
    #[track_caller]
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.hooks.run(self, x, |x| {
            let mut all = Vec::with_capacity(self.convs.len());
            for conv in self.convs.iter() {
                all.push(conv.forward(x)?);
            }
            self.project.forward(&cat(&all, 1)?)
        })
    }
}

/// The head of [`DeepLabV3`].
fn deeplab_head(from: usize, num_classes: usize, rates: &[usize]) -> Result<DeepLabHead> {
    Ok(DeepLabHead {
        layers: Sequential::new()
            .add(ASPP::new(from, rates, 256)?)
            .add(Conv2d::builder(256, 256, 3).padding(1).bias(false).build()?)
            .add(BatchNorm2d::new(256)?)
            .add(ReLU::new())
            .add(Conv2d::new(256, num_classes, 1, 1, 0)?),
    })
}
