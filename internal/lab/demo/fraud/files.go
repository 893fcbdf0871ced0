package fraud

import "embed"

// Files holds pipeline.yaml and the model it names.
//
//go:embed pipeline.yaml fraud.ubj
var Files embed.FS
