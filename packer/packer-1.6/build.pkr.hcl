# ../build.pkr.hcl for Packer 1.6.6: the same source, provisioners and result, without what that
# Packer does not know. `python -m appliance.ami build` sets ImdsSupport itself in any case.

build {
  sources = ["source.amazon-ebs.infinity"]

  provisioner "shell" {
    inline = ["sudo install -d -o \"$(id -un)\" ${local.folder}"]
  }
  provisioner "file" {
    source      = var.tarball
    destination = "${local.folder}/infinity.tar.gz"
  }
  provisioner "shell" {
    inline            = local.provision
    remote_folder     = local.folder
    environment_vars  = local.environment
    execute_command   = "sudo env {{ .Vars }} sh {{ .Path }}"
    expect_disconnect = false
  }

  post-processor "manifest" {
    output     = var.manifest
    strip_path = true
  }
}
