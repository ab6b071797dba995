-- autoencoder.lua: a convolutional autoencoder of CIFAR-10 pictures: 3x32x32 to a latent of 128
-- numbers and back, by strided convolutions, a linear layer each way, and transposed convolutions.
-- nngen train models/autoencoder.lua --data DIR
local nn = require "nn"
local cfg = nn.config{batch = nn.trains() and 128 or 1, width = 32, latent = 128}
local B, W = cfg.batch, cfg.width

local function encoder(x)
  for i, out in ipairs{W, 2 * W, 4 * W} do -- 32x32 to 4x4
    x = x:conv2d("conv" .. i, {out = out, kernel = 3, stride = 2, pad = 1}):relu()
  end
  return x:flatten():linear("fc", {out = cfg.latent})
end

local function decoder(z)
  local x = z:linear("fc", {out = 4 * W * 4 * 4}):relu():reshape{B, 4 * W, 4, 4}
  for i, out in ipairs{2 * W, W, 3} do
    x = x:conv_transpose2d("up" .. i, {out = out, kernel = 4, stride = 2, pad = 1})
    x = i < 3 and x:relu() or x:sigmoid()
  end
  return x
end

local function network(x)
  local z = nn.scope("encoder", encoder, x)
  return nn.scope("decoder", decoder, z), z
end

local y, z = network(nn.input("image", {B, 3, 32, 32}))
nn.output("reconstruction", y)
nn.output("latent", z)

nn.train(B, function()
  local x = nn.images{B, 3, 32, 32, flip = true} -- 0 to 1
  local made, latent = network(x)
  return {loss = made:mse_loss(x, {reduction = "none"}):mean{2, 3, 4}, embedding = latent,
          reconstruction = made}
end, {optimizer = "adam", lr = 1e-3, epochs = 20})
