"""The types of our artifacts and of their layers; docs/artifacts.md describes them."""

RECIPE_ARTIFACT = "application/vnd.posttrain.recipe.v1"
RECIPE_CONFIG = "application/vnd.posttrain.recipe.config.v1+json"
RECIPE_FILE = "application/vnd.posttrain.recipe.file.v1"
RECIPE_LOCK = "application/vnd.posttrain.recipe.lock.v1"
RECIPE_PLAN = "application/vnd.posttrain.recipe.plan.v1+json"

PRODUCT_ARTIFACT = "application/vnd.posttrain.product.v1"
PRODUCT_FILE = "application/vnd.posttrain.product.file.v1"
PRODUCT_MANIFEST = "application/vnd.posttrain.product.manifest.v1+json"
PRODUCT_RECORD = "application/vnd.posttrain.product.record.v1"

# The model packaging specification of the CNCF (ModelPack).
MODEL_ARTIFACT = "application/vnd.cncf.model.manifest.v1+json"
MODEL_CONFIG = "application/vnd.cncf.model.config.v1+json"
MODEL_WEIGHT = "application/vnd.cncf.model.weight.v1.raw"
MODEL_WEIGHT_CONFIG = "application/vnd.cncf.model.weight.config.v1.raw"
MODEL_DOC = "application/vnd.cncf.model.doc.v1.raw"
MODEL_PATH = "org.cncf.model.filepath"
