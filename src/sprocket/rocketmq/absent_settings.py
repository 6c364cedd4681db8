# A pure table: the settings of RocketMQ 5.3.3 that we have none for.
"""RocketMQ's settings that Sprocket does not have: their names, and what tools are shown of them.

The names tell an unsupported setting from a misspelt one. A value is RocketMQ's default if that is
also true of Sprocket, or if nothing reads it, such as a time or a size of something that is not
here. The others have the value that is true here: what is missing is off, and
every number of threads is 1.

Source: the answers of a real 5.3.3 to GET_BROKER_CONFIG 26 and GET_NAMESRV_CONFIG 319; and the
properties of `BrokerConfig`, `BrokerIdentity`, `MessageStoreConfig`, `AuthConfig`,
`NettyServerConfig` and `NettyClientConfig` for broker.conf, of `NamesrvConfig` and
`NettyServerConfig` for namesrv.conf.
"""


def _texts(*, off: str, on: str = "", one: str, others: str) -> dict[str, str]:
    """Return values by name, of names that are false, true or 1 and of `name=value` pairs."""
    pairs = (pair.partition("=") for pair in others.split())
    return {
        **dict.fromkeys(off.split(), "false"),
        **dict.fromkeys(on.split(), "true"),
        **dict.fromkeys(one.split(), "1"),
        **{name: value for name, _, value in pairs},
    }


_SERVER = _texts(
    off="""
        enableShutdownGracefully useEpollNativeSelector
    """,
    on="""
        serverNettyWorkerGroupEnable serverPooledByteBufAllocatorEnable
    """,
    one="""
        serverSelectorThreads serverWorkerThreads
    """,
    others="""
        serverAsyncSemaphoreValue=64 serverCallbackExecutorThreads=0
        serverOnewaySemaphoreValue=256 serverSocketBacklog=1024 serverSocketRcvBufSize=0
        serverSocketSndBufSize=0 shutdownWaitTimeSeconds=30 writeBufferHighWaterMark=0
        writeBufferLowWaterMark=0
    """,
)

BROKER = _SERVER | _texts(
    off="""
        aclEnable appendAckAsync appendCkAsync asyncLearner
        clientPooledByteBufAllocatorEnable coldCtrStrategyEnable coldDataFlowControlEnable
        coldDataScanEnable compressedRegister debugLockEnable disableCallbackExecutor
        disableConsumeIfConsumerReadSlowly disableNettyWorkerGroup dispatchFromSenderThread
        duplicationEnable enableAutoInSyncReplicas enableBatchPush
        enableBuildConsumeQueueConcurrently enableCleanExpiredOffset
        enableControllerMode enableDLegerCommitLog
        enableFastChannelEventProcess enableLmqStats enableMixedMessageType
        enableNetWorkFlowControl enablePopBatchAck enablePopBufferMerge enablePopLog
        enablePopMessageThreshold enableRemoteEscape enableRetryTopicV2
        enableRocksDBLog enableScheduleAsyncDeliver enableSingleTopicRegister
        enableSkipLongAwaitingAck enableSlaveActingMaster enableSplitRegistration
        fastFailIfNoBufferInStorePool fetchControllerAddrByDnsLookup fetchNameSrvAddrByDnsLookup
        fetchNamesrvAddrByAddressServer forceVerifyPropCRC
        haFlowControlEnable highSpeedMode isBrokerContainer isInBrokerContainer isolateLogEnable
        lockInStrictMode messageIndexSafe metricsInDelta offsetCheckInSlave
        popConsumerKVServiceEnable popConsumerKVServiceInit popConsumerKVServiceLog
        popResponseReturnActualRetryTopic printChannelGroups readUnCommitted
        recheckReputOffsetFromCq recoverConcurrently rejectPullConsumerEnable
        rocksdbCQDoubleWriteEnable skipPreOnline skipWhenCKRePutReachMaxTimes
        syncFromLastFile syncMasterFlushOffsetWhenStartup timerEnableDisruptor
        timerEnableRetryUntilSuccess timerInterceptDelayLevel timerSkipUnknownError
        timerStopDequeue timerStopEnqueue timerWarmEnable traceTopicEnable
        transientStorePoolEnable useABSLock useStaticSubscription wakeFlushWhenPutMessage
        warmMapedFileEnable
    """,
    on="""
        accountStatsEnable accountStatsPrintZeroValues allowRecallWhenBrokerNotWriteable
        asyncSendEnable autoDeleteUnusedStats autoMessageVersionOnTopicLen
        brokerFastFailureEnable brokerTopicEnable checkCRCOnRecover
        clearRetryTopicWhenDeleteTopic clientCloseSocketIfTimeout clusterTopicEnable
        compatibleWithOldNameSrv dataReadAheadEnable diskFallRecorded enableAsyncReput
        enableBroadcastOffsetStore enableCreateSysGroup enableDetailStat
        enableNotifyAfterPopOrderLockRelease enableNotifyBeforePopCalculateLag
        enableReconnectForGoAway enableRegisterProducer enableScheduleMessageStats
        estimateAccumulation flushCommitLogTimed forceRegister initPopOffsetByCheckMsgInMem
        isScanAvailableNameSrv litePullMessageEnable longPollingEnable mappedFileSwapEnable
        notifyConsumerIdsChangedEnable popConsumerFSServiceInit putConsumeQueueDataByFileChannel
        realTimeNotifyConsumerChange realTimePersistRocksDBConfig
        retrieveMessageFromPopRetryTopicV1 searchBcqByCacheEnable serverLoadBalancerEnable
        storeReplyMessageEnable timerEnableCheckMetrics traceOn transferMsgByHeap
        usePIDColdCtrStrategy useReentrantLockWhenPutMessage useServerSideResetOffset
        validateSystemTopicWhenUpdateTopic wakeCommitWhenPutMessage
    """,
    one="""
        ackMessageThreadPoolNums adminBrokerThreadPoolNums batchDispatchRequestThreadPoolNums
        clientCallbackExecutorThreads clientManageThreadPoolNums clientWorkerThreads
        commercialBaseCount compactionThreadNum consumerManageThreadPoolNums
        correctLogicMinOffsetSleepInterval dispatchCqThreads endTransactionThreadPoolNums
        heartbeatThreadPoolNums litePullMessageThreadPoolNums
        loadBalanceProcessorThreadPoolNums processReplyMessageThreadPoolNums
        pullMessageThreadPoolNums putMessageFutureThreadPoolNums queryMessageThreadPoolNums
        recoverThreadPoolNums replicasPerDiskPartition sendMessageThreadPoolNums
        timerGetMessageThreadNum timerPutMessageThreadNum totalReplicas
        travelCqFileNumWhenGetMessage
    """,
    others="""
        accessMessageInMemoryHotRatio=26 accessMessageInMemoryMaxRatio=40
        ackThreadPoolQueueCapacity=100000 adminBrokerThreadPoolQueueCapacity=10000
        bitMapLengthConsumeQueueExt=112 bottomMostCompressionTypeForConsumeQueueStore=zstd
        broadcastOffsetExpireMaxSecond=300 broadcastOffsetExpireSecond=120
        brokerElectionPriority=2147483647 brokerHeartbeatInterval=1000
        brokerNotActiveTimeoutMillis=10000 cgColdReadThreshold=3145728
        channelNotActiveInterval=60000 checkSyncStateSetPeriod=5000
        cleanOfflineBrokerInterval=30000 cleanResourceInterval=10000
        cleanRocksDBDirtyCQIntervalMin=60 cleanSwapedMapInterval=300000
        clientAsyncSemaphoreValue=65535 clientChannelMaxIdleTimeSeconds=120
        clientManagerThreadPoolQueueCapacity=1000000 clientOnewaySemaphoreValue=65535
        clientSocketRcvBufSize=0 clientSocketSndBufSize=0 commercialSizePerMsg=4096
        commitCommitLogLeastPages=4 commitCommitLogThoroughInterval=200
        commitIntervalCommitLog=200 commitLogForceSwapMapInterval=43200000
        commitLogSwapMapInterval=3600000 commitLogSwapMapReserveFileNum=100
        configBlackList=configBlackList;brokerConfigPath;rocketmqHome configManagerVersion=v1
        connectTimeoutMillis=3000 consumerFallbehindThreshold=17179869184
        consumerManagerThreadPoolQueueCapacity=1000000 consumerOffsetUpdateVersionStep=500
        controllerAddr= controllerHeartBeatTimeoutMills=10000
        correctLogicMinOffsetForceInterval=300000 defaultMessageRequestMode=PULL
        defaultPopShareQueueNum=-1 defaultQueryMaxNum=32 delayOffsetUpdateVersionStep=200
        deleteCommitLogFilesInterval=100 deleteConsumeQueueFilesInterval=100
        destroyMapedFileIntervalForcibly=120000 disappearTimeAfterStart=-1
        dispatchCqCacheNum=4096 endTransactionPoolQueueCapacity=100000
        fetchNamesrvAddrInterval=10000 flushConsumeQueueLeastPages=2
        flushConsumeQueueThoroughInterval=60000 flushConsumerOffsetHistoryInterval=60000
        flushDelayOffsetInterval=10000 flushIntervalConsumeQueue=1000
        flushLeastPagesWhenWarmMapedFile=4096 forwardTimeout=3000
        globalColdReadThreshold=104857600 haMaxTimeSlaveNotCatchup=15000
        heartbeatThreadPoolQueueCapacity=50000
        litePullThreadPoolQueueCapacity=100000 loadBalancePollNameServerInterval=30000
        loadBalanceThreadPoolQueueCapacity=100000 logicQueueForceSwapMapInterval=43200000
        logicQueueSwapMapInterval=3600000 logicQueueSwapMapReserveFileNum=20
        logicalDiskSpaceCleanForciblyThreshold=0.8 mappedFileSizeTimerLog=104857600
        maxAsyncPutMessageRequests=5000 maxBatchDeleteFilesNum=50 maxChecksumRange=1073741824
        maxConsumeQueueScan=20000 maxFilterMessageSize=16000
        maxHaTransferByteInSecond=104857600 maxLmqConsumeQueueNum=20000
        maxPopPollingSize=100000 maxReconnectIntervalTimeSeconds=60
        maxRecoveryCommitlogFiles=30 maxSlaveResendLength=268435456 maxStatsIdleTimeInMinutes=-1
        maxTopicLength=127 maxTransferBytesOnMessageInDisk=65536
        maxTransferCountOnMessageInDisk=8 memTableFlushIntervalMs=3600000 messageStorePlugIn=
        metricGrpcExporterIntervalInMills=60000 metricGrpcExporterTimeOutInMills=3000
        metricLoggingExporterIntervalInMills=10000 metricsExporterType=DISABLE
        metricsGrpcExporterHeader= metricsGrpcExporterTarget= metricsLabel=
        metricsOtelCardinalityLimit=50000 metricsPromExporterHost= metricsPromExporterPort=5557
        msgTraceTopicName=RMQ_SYS_TRACE_TOPIC osPageCacheBusyTimeOutMills=1000
        popCkMaxBufferSize=200000 popCkOffsetMaxQueueSize=20000 popCkStayBufferTime=10000
        popCkStayBufferTimeOut=3000 popFromRetryProbability=20 popInflightMessageThreshold=10000
        popLongPollingForceNotifyInterval=800 popPollingMapSize=100000 popPollingSize=1024
        popReviveMaxAttemptTimes=16 popReviveMaxReturnSizePerRead=16384
        printChannelGroupsMinNum=5 pullBatchMaxMessageCount=160
        pullThreadPoolQueueCapacity=100000 putMessageTimeout=8000 putMsgIndexHightWater=600000
        putThreadPoolQueueCapacity=10000 queryThreadPoolQueueCapacity=20000
        redeleteHangedFileInterval=120000 regionId=DefaultRegion
        registerBrokerTimeoutMills=24000 replyThreadPoolQueueCapacity=10000
        reviveAckWaitMs=180000 reviveInterval=1000 reviveMaxSlow=3 reviveQueueNum=8
        reviveScanTime=10000 rocksdbCompressionType=lz4 rocksdbFlushWalFrequency=1024
        rocksdbWalFileRollingThreshold=1073741824 sampleCountThreshold=5000 sampleSteps=32
        scheduleAsyncDeliverMaxPendingLimit=2000 scheduleAsyncDeliverMaxResendNum2Blocked=3
        sendHeartbeatTimeoutMillis=1000 sendThreadPoolQueueCapacity=10000
        shortPollingTimeMills=1000 socksProxyConfig={}
        spinLockCollisionRetreatOptimalDegree=1000 splitRegistrationSize=800
        startAcceptSendRequestTimeStamp=0 statRocksDBCQIntervalSec=10
        subscriptionExpiredTimeout=600000 syncBrokerMemberGroupPeriod=1000
        syncBrokerMetadataPeriod=5000 syncControllerMetadataPeriod=10000
        timerCheckMetricsWhen=05 timerColdDataCheckIntervalMs=60000
        timerFlushIntervalMs=1000
        timerMetricSmallThreshold=1000000 timerProgressLogIntervalMs=10000
        topicQueueLockNum=32
        transactionMetricFlushInterval=3000
        transactionOpBatchInterval=3000 transactionOpMsgMaxSize=4096
        transientStorePoolSize=5 updateNameServerAddrPeriod=120000 waitTimeMillsInAckQueue=3000
        waitTimeMillsInAdminBrokerQueue=5000 waitTimeMillsInHeartbeatQueue=31000
        waitTimeMillsInLitePullQueue=5000 waitTimeMillsInPullQueue=5000
        waitTimeMillsInSendQueue=200 waitTimeMillsInTransactionQueue=3000
    """,
)
"""What a broker tells."""

_UNTOLD = """
    aclCacheExpiredSecond aclCacheMaxNum aclCacheRefreshSecond authConfigPath brokerConfigPath
    brokerIP2 clusterName configName dLegerGroup dLegerPeers dLegerSelfId
    enableMultiDispatch inBrokerContainer migrateAuthFromV1Enabled
    preferredLeaderId readOnlyCommitLogStorePaths rocketmqHome scanAvailableNameSrv
    statefulAuthenticationCacheExpiredSecond statefulAuthenticationCacheMaxNum
    statefulAuthorizationCacheExpiredSecond statefulAuthorizationCacheMaxNum
    storePathBrokerIdentity storePathCommitLog storePathDLedgerCommitLog storePathEpochFile
    storePathRootDir userCacheExpiredSecond userCacheMaxNum userCacheRefreshSecond
"""
BROKER_UNTOLD = frozenset(_UNTOLD.split())
"""What a broker.conf may hold besides."""

BROKER_UNREAD = frozenset(
    {"abortFile", "storeCheckpoint", "storePathConsumeQueue", "storePathIndex"}
    | {"isBrokerContainer", "isInBrokerContainer", "isScanAvailableNameSrv"}
    | {"timerCheckMetricsWhen", "timerEnableDisruptor", "timerStopDequeue", "timerWarmEnable"}
)
"""What nothing in RocketMQ reads, though many a broker.conf holds it since a tutorial of old (these
files lie below storePathRootDir, there as here), or RocketMQ tells it of itself. It does not say
that it ignores them."""

NAMESERVER = _SERVER | _texts(
    off="""
        clusterTest enableControllerInNamesrv needWaitForService notifyMinBrokerIdChanged
    """,
    one="""
        clientRequestThreadPoolNums defaultThreadPoolNums
    """,
    others="""
        clientRequestThreadPoolQueueCapacity=50000
        configBlackList=configBlackList;configStorePath;kvConfigPath
        defaultThreadPoolQueueCapacity=10000 productEnvName=center
        scanNotActiveBrokerInterval=5000 unRegisterBrokerQueueCapacity=3000
        waitSecondsForService=45
    """,
)
"""What a NameServer tells."""

NAMESERVER_UNTOLD = frozenset({"configStorePath", "kvConfigPath", "rocketmqHome"})
"""What a namesrv.conf may hold besides."""
